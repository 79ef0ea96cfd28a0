//! Placeholder.
use super::verbs::Keys;
use super::Kind;
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::settings::Settings;
use bytes::Bytes;
use std::time::Duration;
/// x
pub enum Beat {
    /// x
    Calm {
        /// x
        left: Option<Duration>,
        /// x
        foreign: bool },
    /// x
    Yours {
        /// x
        entry: Bytes, 
        /// x
        left: Option<Duration>,
        /// x
        foreign: bool },
    /// x
    Gone {
        /// x
        left: Option<Duration>,
        /// x
        foreign: bool },
}
/// x
pub fn beat(_: &LockName, _: &Keys, _: &ClientId, _: Option<&Bytes>, _: &Settings) -> Call { todo!() }
/// x
pub fn beaten(_: &Reply) -> Result<Beat, DecodeError> { todo!() }
/// x
pub fn leave(_: Kind, _: &LockName, _: &Keys, _: &Bytes, _: &Settings) -> Call { todo!() }
/// x
pub fn front_channel(_: &Keys, _: &Bytes) -> Bytes { todo!() }
