#![no_main]

#[path = "../../tests/fuzz/source.rs"]
#[allow(dead_code, reason = "each target uses a part of it")]
mod source;
#[path = "../../tests/fuzz/urls.rs"]
#[allow(dead_code, reason = "what only the tests begin with")]
mod urls;

libfuzzer_sys::fuzz_target!(|data: &[u8]| urls::check(data));
