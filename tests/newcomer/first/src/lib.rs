//! The code of the README and of the front page, built by the README's own dependency lines: what a new user types first.

#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!(concat!(env!("OUT_DIR"), "/front_page.md"))]
struct FrontPage;
