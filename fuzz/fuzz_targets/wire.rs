#![no_main]

#[path = "../../tests/fuzz/wire.rs"]
#[allow(dead_code, reason = "what only the tests begin with")]
mod wire;

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::check(data));
