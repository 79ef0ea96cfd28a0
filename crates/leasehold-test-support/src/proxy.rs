//! x
/// x
#[derive(Debug)]
pub struct Proxy;
/// x
#[derive(Debug)]
pub enum After{}
/// x
#[derive(Debug)]
pub enum Way{}
/// x
#[derive(Debug)]
pub struct Request;
/// x
#[derive(Debug)]
pub struct Trap;
