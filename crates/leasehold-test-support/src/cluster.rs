//! x
/// x
#[derive(Debug)]
pub struct Cluster;
/// x
#[derive(Debug)]
pub struct ClusterBuilder;
