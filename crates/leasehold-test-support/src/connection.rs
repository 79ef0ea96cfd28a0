//! A small blocking client: one connection, one command at a time.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use crate::resp::{Resp, encode, parse_reply};

/// A plain connection to a server, for looking at it from outside the library under test.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    /// Connects. Replies are waited for up to five seconds, see [`Connection::set_read_timeout`].
    pub fn connect(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// How long [`Connection::command`] and [`Connection::receive`] wait for bytes before they fail. Default: five seconds.
    pub fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }

    /// Authenticates; `None` is the default user.
    pub fn auth(&mut self, user: Option<&str>, password: &str) -> io::Result<()> {
        let reply = match user {
            Some(user) => self.command(&["AUTH", user, password])?,
            None => self.command(&["AUTH", password])?,
        };
        if reply.is_error() { Err(io::Error::other(format!("{reply:?}"))) } else { Ok(()) }
    }

    /// Sends one command and waits for its reply. An error reply is a reply: `Ok(Resp::Error(_))`. On a connection in
    /// RESP3, pushes that arrive before the reply are passed over; receive them with [`Connection::receive`].
    pub fn command<A: AsRef<[u8]>>(&mut self, argv: &[A]) -> io::Result<Resp> {
        self.send(argv)?;
        loop {
            match self.receive()? {
                Resp::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }

    /// Sends one command without waiting for its reply.
    pub fn send<A: AsRef<[u8]>>(&mut self, argv: &[A]) -> io::Result<()> {
        self.stream.write_all(&encode(argv))
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits for the next reply or message. The error kind is [`io::ErrorKind::UnexpectedEof`] when the other side closed,
    /// and `WouldBlock` or `TimedOut` when nothing came in time; what came in part is kept for the next call.
    pub fn receive(&mut self) -> io::Result<Resp> {
        loop {
            let parsed =
                parse_reply(&self.unread).map_err(|_| io::Error::other("the server sent something else than RESP"))?;
            if let Some((reply, used)) = parsed {
                self.unread.drain(..used);
                return Ok(reply);
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.unread.extend_from_slice(&chunk[..n]),
                // A signal to this process says nothing of the server.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
