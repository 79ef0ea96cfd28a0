//! The code of the README and of the front page, built by the README's own dependency lines: what a new user types first.

#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!(concat!(env!("OUT_DIR"), "/front_page.md"))]
struct FrontPage;

#[cfg(test)]
mod tests {
    use leasehold::Client;

    /// The features of the dependency lines are the default ones, which have no TLS.
    #[test]
    fn secure_url_names_the_feature_that_it_needs() {
        for url in
            ["rediss://:hunter2@db", "valkeys-cluster://db:7000", "rediss-sentinel://db?sentinelServiceName=main"]
        {
            let error = Client::builder().connect_lazy(url).expect_err(url).to_string();
            let scheme = url.split(['-', ':']).next().expect("a scheme");
            let line = "leasehold = { version = \"0.1\", features = [\"tls\"] }";
            assert!(error.contains(&format!("{scheme}:// needs the feature `tls`")) && error.contains(line), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
