//! The token that frees locks.

use crate::failure::{Exit, Failure};
use crate::files;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use subtle::ConstantTimeEq as _;

/// The environment variable that may have the token.
const VARIABLE: &str = "LEASEHOLD_SERVE_TOKEN";

/// The least length. A shorter one could be guessed.
const LEAST: usize = 16;

/// The secret that a request to free a lock has to know.
pub(super) struct Token(String);

impl Token {
    /// The token of the file, or of the environment, or else a new one, which the result says.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the token is too short.
    pub(super) fn find(file: Option<&Path>) -> Result<(Self, bool), Failure> {
        let given = match file {
            Some(path) => Some(files::one_line(files::read(path)?, path)?),
            None => std::env::var(VARIABLE).ok().filter(|value| !value.is_empty()),
        };
        match given {
            Some(token) if token.len() < LEAST => {
                let text = format!("the token for --allow-unlock is shorter than {LEAST} characters");
                Err(Failure::new(Exit::Usage, text))
            }
            Some(token) => Ok((Self(token), false)),
            None => Ok((Self(random()?), true)),
        }
    }

    /// The token for whom the page shall obey.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. The time that it takes says nothing of the characters.
    pub(super) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// A token of 128 bits from the system.
fn random() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| Failure::new(Exit::Io, format!("/dev/urandom cannot be read: {error}")))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_compared_whole() {
        let (one, other) = (random().expect("a token"), random().expect("a token"));
        assert!(one.len() == 32 && one != other);
        let token = Token(one.clone());
        assert!(token.is(&one) && !token.is(&other) && !token.is(&one[..31]) && !token.is(""));
    }
}
