//! Programs as bytes: for artifacts on disk, and as the content that registrations are keyed by.
//!
//! The format is `MAGIC`, a version, and the postcard encoding. It is not meant to be read by other versions: a program is
//! always made again from its source.

use super::{Program, ProgramError};

/// First bytes of every encoded program.
const MAGIC: &[u8; 8] = b"pyptoPRG";
/// Raised whenever the meaning of the bytes changes.
const VERSION: u32 = 5;

impl Program {
    /// The program as bytes. Equal programs have equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        postcard::to_extend(self, bytes).expect("a program has only what postcard can encode")
    }

    /// The program that [`Program::encode`] gave these bytes for.
    ///
    /// # Errors
    /// [`ProgramError::Undecodable`] for any other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProgramError> {
        let refuse = |why: &str| ProgramError::Undecodable(format!("not a program file of this version: {why}"));
        let body = bytes.strip_prefix(MAGIC).ok_or_else(|| refuse("it does not begin with the magic bytes"))?;
        let (version, body) = body.split_first_chunk::<4>().ok_or_else(|| refuse("it ends too early"))?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(refuse(&format!("it has version {version}, this is {VERSION}; compile the source again")));
        }
        let (program, rest) = postcard::take_from_bytes(body).map_err(|error| refuse(&error.to_string()))?;
        if rest.is_empty() { Ok(program) } else { Err(refuse("bytes follow the program")) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::depth::tests::nested;
    use super::super::verify;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_program_survives_its_bytes() {
        let program = nested(5);
        assert_eq!(Program::decode(&program.encode()).unwrap(), program);
    }

    #[test]
    fn other_bytes_are_refused_with_the_reason() {
        let text = |bytes: &[u8]| Program::decode(bytes).unwrap_err().to_string();
        assert!(text(b"").contains("magic"));
        assert!(text(b"pyptoPRG\x01").contains("too early"));
        assert!(text(b"pyptoPRG\xff\0\0\0").contains("version 255"));
        let mut long = nested(0).encode();
        long.push(0);
        assert!(text(&long).contains("follow"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut all = MAGIC.to_vec();
            all.extend(VERSION.to_le_bytes());
            all.extend(&bytes);
            if let Ok(program) = Program::decode(&all) {
                let _ = verify(&program);
            }
        }
    }
}
