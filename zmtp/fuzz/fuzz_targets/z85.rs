#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zmtp_fuzz::z85(data));
