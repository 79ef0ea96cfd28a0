//! The links to servers: what stands below the seam of `leasehold-core`.

#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "nothing is built on the link yet"))]
pub(crate) mod fred;
