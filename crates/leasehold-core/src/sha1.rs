//! SHA-1 at compile time, so that a script's name on the server is a constant and no script is loaded ahead of its use. The ids of
//! permits are made with it, too.

/// The SHA-1 of `text` as 40 lower-case hexadecimal digits (FIPS 180-4).
pub(crate) const fn hex(text: &[u8]) -> [u8; 40] {
    let digest = digest(text);
    let digits = b"0123456789abcdef";
    let mut out = [0; 40];
    let mut i = 0;
    while i < 20 {
        out[2 * i] = digits[(digest[i] >> 4) as usize];
        out[2 * i + 1] = digits[(digest[i] & 15) as usize];
        i += 1;
    }
    out
}

/// The SHA-1 of `text` as bytes.
pub(crate) const fn digest(text: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    // The padded message: the text, one byte 0x80, zeros, and the length in bits in the last eight bytes of a block.
    let blocks = (text.len() + 8) / 64 + 1;
    let mut block = 0;
    while block < blocks {
        let mut words = [0u32; 80];
        let mut i = 0;
        while i < 16 {
            let mut byte = 0;
            while byte < 4 {
                words[i] = (words[i] << 8) | padded(text, block * 64 + i * 4 + byte, blocks * 64) as u32;
                byte += 1;
            }
            i += 1;
        }
        while i < 80 {
            words[i] = (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1);
            i += 1;
        }
        state = compress(state, &words);
        block += 1;
    }
    let mut out = [0; 20];
    let mut i = 0;
    while i < 20 {
        out[i] = state[i / 4].to_be_bytes()[i % 4];
        i += 1;
    }
    out
}

const fn padded(text: &[u8], at: usize, total: usize) -> u8 {
    if at < text.len() {
        text[at]
    } else if at == text.len() {
        0x80
    } else if at >= total - 8 {
        ((text.len() as u64) * 8).to_be_bytes()[at - (total - 8)]
    } else {
        0
    }
}

const fn compress(state: [u32; 5], words: &[u32; 80]) -> [u32; 5] {
    let [mut a, mut b, mut c, mut d, mut e] = state;
    let mut i = 0;
    while i < 80 {
        let (f, k) = match i / 20 {
            0 => ((b & c) | (!b & d), 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(words[i]);
        e = d;
        d = c;
        c = b.rotate_left(30);
        b = a;
        a = next;
        i += 1;
    }
    [
        state[0].wrapping_add(a),
        state[1].wrapping_add(b),
        state[2].wrapping_add(c),
        state[3].wrapping_add(d),
        state[4].wrapping_add(e),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected: &str) {
        assert_eq!(std::str::from_utf8(&hex(text)), Ok(expected));
    }

    #[test]
    fn matches_the_published_vectors() {
        check(b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        check(b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
        check(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        check(&[b'a'; 1_000], "291e9a6c66994949b57ba5e650361e98fc36b1ba");
    }
}
