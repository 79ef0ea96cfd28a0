#![no_main]

#[path = "../../tests/fuzz/sessions.rs"]
#[allow(dead_code, reason = "what only the tests begin with")]
mod sessions;
#[path = "../../tests/fuzz/source.rs"]
#[allow(dead_code, reason = "each target uses a part of it")]
mod source;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sessions::check(data));
