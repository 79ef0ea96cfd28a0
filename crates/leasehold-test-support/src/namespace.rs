//! Two network namespaces with a link between them that can be cut: neither side learns of it, and nothing arrives.
//!
//! Each side has an address on the link, by which the two sides know each other, and another one by which this process reaches it
//! whether the link is cut or not. It needs `ip` and the rights of an administrator.

use std::{
    net::Ipv4Addr,
    process::{self, Command},
};

/// Two namespaces and the link between them. Dropping it removes both.
#[derive(Debug)]
pub struct Divide {
    name: String,
    sides: [Side; 2],
}

/// One of the two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    namespace: String,
    /// The address on the link, which can be cut.
    pub linked: Ipv4Addr,
    /// The address at which this process reaches the side.
    pub outside: Ipv4Addr,
    /// The address at which the side reaches this process.
    pub home: Ipv4Addr,
}

impl Divide {
    /// Makes both, and the link. The error says why that cannot be done here.
    pub fn make() -> Result<Self, String> {
        sweep();
        let name = format!("lh{}", process::id());
        // From the range that is set aside for benchmarks of networks, so that it is in no other's way.
        let net = (process::id() % 256).to_le_bytes()[0];
        let side = |at: u8| Side {
            namespace: format!("{name}-{at}"),
            linked: Ipv4Addr::new(198, 18, net, at + 1),
            outside: Ipv4Addr::new(198, 19, net, at * 4 + 2),
            home: Ipv4Addr::new(198, 19, net, at * 4 + 1),
        };
        let divide = Self { sides: [side(0), side(1)], name };
        divide.set_up()?;
        Ok(divide)
    }

    /// The two sides.
    #[must_use]
    pub fn sides(&self) -> &[Side; 2] {
        &self.sides
    }

    /// Lets nothing through any more, in silence.
    ///
    /// # Panics
    ///
    /// When `ip` refuses.
    pub fn cut(&self) {
        self.switch(&["link", "set", "port0", "nomaster"]).expect("a link that can be cut");
    }

    /// Lets everything through again.
    ///
    /// # Panics
    ///
    /// When `ip` refuses.
    pub fn heal(&self) {
        self.switch(&["link", "set", "port0", "master", "bridge0"]).expect("a link that can be healed");
    }

    fn set_up(&self) -> Result<(), String> {
        ip(&["netns", "add", &self.name])?;
        self.switch(&["link", "add", "bridge0", "type", "bridge"])?;
        self.switch(&["link", "set", "bridge0", "up"])?;
        for (at, side) in self.sides.iter().enumerate() {
            let space = side.namespace.as_str();
            ip(&["netns", "add", space])?;
            let inside = |args: &[&str]| ip(&[&["-n", space], args].concat());
            inside(&["link", "set", "lo", "up"])?;
            let port = format!("port{at}");
            inside(&["link", "add", "linked", "type", "veth", "peer", "name", &port, "netns", &self.name])?;
            self.switch(&["link", "set", &port, "up", "master", "bridge0"])?;
            inside(&["addr", "add", &format!("{}/24", side.linked), "dev", "linked"])?;
            inside(&["link", "set", "linked", "up"])?;
            let home = self.home(at);
            ip(&["link", "add", &home, "type", "veth", "peer", "name", "outside", "netns", space])?;
            ip(&["addr", "add", &format!("{}/30", side.home), "dev", &home])?;
            ip(&["link", "set", &home, "up"])?;
            inside(&["addr", "add", &format!("{}/30", side.outside), "dev", "outside"])?;
            inside(&["link", "set", "outside", "up"])?;
        }
        Ok(())
    }

    /// The name of the end outside of a side.
    fn home(&self, at: usize) -> String {
        format!("{}h{at}", self.name)
    }

    /// A command of `ip` in the namespace of the switch.
    fn switch(&self, args: &[&str]) -> Result<(), String> {
        ip(&[&["-n", &self.name], args].concat())
    }
}

impl Drop for Divide {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

impl Side {
    /// A command that runs a program on this side, under its own process number.
    #[must_use]
    pub fn run(&self, program: &Command) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

/// Removes what processes left that were killed.
fn sweep() {
    let listed = Command::new("ip").args(["netns", "list"]).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for name in listed.lines().filter_map(|line| line.split_whitespace().next()) {
        let owner = name.strip_prefix("lh").and_then(|rest| rest.parse::<u32>().ok());
        if owner.is_some_and(|owner| !std::path::Path::new(&format!("/proc/{owner}")).exists()) {
            remove(name);
        }
    }
}

/// The ends of a namespace's links go with it.
fn remove(name: &str) {
    for space in [&format!("{name}-0"), &format!("{name}-1"), name] {
        let _ = ip(&["netns", "del", space]);
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    let shown = || format!("ip {}", args.join(" "));
    let output = Command::new("ip").args(args).output().map_err(|error| format!("`{}`: {error}", shown()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("`{}`: {}", shown(), said.trim())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Resp, Server, until};

    #[test]
    fn a_link_that_is_cut_lets_nothing_through() {
        let divide = match Divide::make() {
            Ok(divide) => divide,
            Err(why) => return eprintln!("there are no network namespaces here: {why}"),
        };
        let [near, far] = divide.sides().each_ref().map(|side| Server::builder().on(side).start());
        let (ip, port) = (far.peer_addr().ip().to_string(), far.port().to_string());
        let moves = |key: &str| {
            near.command(&["SET", key, "1"]);
            near.command(&["MIGRATE", &ip, &port, key, "0", "300"])
        };
        assert_eq!(moves("before"), Resp::Simple("OK".into()));
        divide.cut();
        near.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        assert!(moves("meanwhile").is_error());
        assert_eq!(far.command(&["EXISTS", "meanwhile"]), Resp::Int(0), "and this process reaches both sides");
        divide.heal();
        until("the link is whole", || moves("after") == Resp::Simple("OK".into()));
        assert_eq!(far.command(&["EXISTS", "before", "after"]), Resp::Int(2));
    }
}
