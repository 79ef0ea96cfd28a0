pub(crate) async fn run(_: &[String]) {}
