//! A watcher of the replies that pass through a proxy, and the name of the server process that gives them.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
};

use super::Request;
use crate::{
    Resp,
    resp::{encode, parse_reply},
};

/// Is told of every reply that passes, and of the server process that gave it.
pub trait Watch: Send + Sync {
    /// The commands that the server gets instead of a request. The last command answers the request, and the replies to the others are
    /// dropped. `None` for the request itself.
    fn sent_for(&self, _connection: u64, _argv: &[Vec<u8>]) -> Option<Vec<Vec<Vec<u8>>>> {
        None
    }

    /// Whether the connection ends in place of a reply.
    fn hangs_up(&self, _argv: &[Vec<u8>]) -> bool {
        false
    }

    /// A request was answered by a server process, and its client has not got the reply yet. Returns what the client gets instead, if it
    /// shall get something else.
    fn answered(&self, server: &str, request: &Request, reply: &Resp) -> Option<Resp>;

    /// The server did not accept a connection.
    fn refused(&self, target: SocketAddr);
}

/// The name of the server process at the other end of a connection: the beginning of its run id, and its port. The process is asked on
/// that connection, before anything else, so no other process can be meant.
pub(super) fn name_of(mut server: &TcpStream) -> io::Result<String> {
    server.write_all(&encode(&["INFO", "server"]))?;
    let (mut unread, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
    let info = loop {
        let arrived = server.read(&mut chunk)?;
        if arrived == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        unread.extend_from_slice(&chunk[..arrived]);
        match parse_reply(&unread) {
            Ok(Some((reply, _))) => break reply,
            Ok(None) => {}
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
    };
    info.as_str()
        .and_then(name_in)
        .ok_or_else(|| io::Error::other(format!("the server does not say who it is: {info:?}")))
}

/// The same name, from the words of `INFO server`.
pub(crate) fn name_in(info: &str) -> Option<String> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Some(format!("{}@{}", field("run_id")?.get(..8)?, field("tcp_port")?))
}
