//! x
/// x
#[derive(Debug)]
pub struct Sentinel;
