//! The four threads of a connection: a reader and a writer for each direction. Readers understand and judge, writers deliver.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::Arc,
    thread,
    time::Instant,
};

use super::{
    link::{Link, What},
    state::{Shared, State, TO_CLIENT, TO_SERVER},
    trap::{After, Armed, Kind},
    watch::name_of,
};
use crate::resp::{Malformed, encode, parse_reply, parse_request};

/// Serves one client, on threads that end with the connection.
pub(super) fn serve(shared: &Arc<Shared>, client: TcpStream) -> io::Result<()> {
    let (target, watch) = {
        let state = shared.lock();
        (state.target, state.watch.clone())
    };
    let refused = |_: &io::Error| {
        if let Some(watch) = &watch {
            watch.refused(target);
        }
    };
    let sockets = [TcpStream::connect(target).inspect_err(refused)?, client];
    for socket in &sockets {
        socket.set_nodelay(true)?;
    }
    let name = if watch.is_some() { name_of(&sockets[TO_SERVER])? } else { String::new() };
    let [server, client] = [sockets[TO_SERVER].try_clone()?, sockets[TO_CLIENT].try_clone()?];
    let ends = [(TO_SERVER, client.try_clone()?, server.try_clone()?), (TO_CLIENT, server, client)];
    let id = shared.change(|state| {
        let id = state.accepted;
        state.accepted += 1;
        state.links.insert(id, Link::new(sockets, name.into()));
        id
    });
    for (way, from, to) in ends {
        let shared = [Arc::clone(shared), Arc::clone(shared)];
        let [reading, writing] = shared;
        thread::spawn(move || read(&reading, id, way, from));
        thread::spawn(move || write(&writing, id, way, to));
    }
    Ok(())
}

/// Reads one direction to its end.
fn read(shared: &Shared, id: u64, way: usize, mut from: TcpStream) {
    let mut unread = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    let mut opaque = false;
    loop {
        let arrived = match from.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(n) => n,
        };
        unread.extend_from_slice(&chunk[..arrived]);
        let lives = shared.change(|state| {
            if !opaque {
                let judged = if way == TO_SERVER { requests(state, id, &unread) } else { replies(state, id, &unread) };
                match judged {
                    Ok(used) => drop(unread.drain(..used)),
                    Err(Malformed) => opaque = true,
                }
            }
            let link = state.links.get_mut(&id);
            if let Some(link) = link {
                if opaque {
                    link.push(way, What::Bytes(std::mem::take(&mut unread)));
                }
                true
            } else {
                false
            }
        });
        if !lives {
            return;
        }
    }
    shared.change(|state| {
        if let Some(link) = state.links.get_mut(&id) {
            link.push(way, What::End);
        }
    });
}

/// Judges the requests in `bytes`; returns how many bytes they took.
fn requests(state: &mut State, id: u64, bytes: &[u8]) -> Result<usize, Malformed> {
    let mut used = 0;
    let watch = state.watch.clone();
    while let Some((argv, len)) = parse_request(&bytes[used..])? {
        let raw = &bytes[used..used + len];
        used += len;
        if watch.as_ref().is_some_and(|watch| watch.hangs_up(&argv)) {
            if let Some(link) = state.links.get(&id) {
                link.close();
            }
            break;
        }
        let mut sent = watch.as_ref().and_then(|watch| watch.sent_for(id, &argv)).unwrap_or_default();
        let instead = sent.pop();
        let number = state.record(id, &argv);
        let armed = state.trap_for(raw);
        let Some(link) = state.links.get_mut(&id) else { break };
        let (mut swallow, mut held) = (None, false);
        if let Some(Armed { kind, trap, .. }) = armed {
            match kind {
                Kind::Swallow(after) => swallow = Some((after, trap)),
                Kind::Hold => {
                    held = true;
                    link.push(TO_SERVER, What::Hold(number));
                    trap.has_worked();
                }
                Kind::CutBefore => link.push(TO_SERVER, What::Cut(trap)),
            }
        }
        for hidden in sent {
            link.expect_hidden(&hidden);
            link.push(TO_SERVER, What::Bytes(encode(&hidden)));
        }
        if !argv.is_empty() {
            link.expect(number, instead.as_ref().unwrap_or(&argv), swallow, held);
        }
        link.push(TO_SERVER, What::Bytes(instead.map_or_else(|| raw.to_vec(), |instead| encode(&instead))));
    }
    Ok(used)
}

/// Judges the frames in `bytes`; returns how many bytes they took.
fn replies(state: &mut State, id: u64, bytes: &[u8]) -> Result<usize, Malformed> {
    let mut used = 0;
    let watch = state.watch.clone();
    while let Some((frame, len)) = parse_reply(&bytes[used..])? {
        let mut raw = bytes[used..used + len].to_vec();
        used += len;
        let Some(link) = state.links.get_mut(&id) else { break };
        let mut passes = !link.hung;
        if let Some(answered) = link.answered_by(&frame) {
            let Some(number) = answered.number else { continue };
            if let Some((after, trap)) = answered.swallow {
                passes = false;
                match after {
                    _ if !answered.last => {}
                    After::Close => link.push(TO_CLIENT, What::Cut(trap)),
                    After::Hang => {
                        link.hung = true;
                        trap.has_worked();
                    }
                }
            }
            if answered.held {
                state.replies.insert(number, frame.clone());
            }
            if let Some(watch) = &watch {
                let request = state.requests.remove(&number);
                if let Some(other) = request.and_then(|request| watch.answered(&link.server, &request, &frame)) {
                    raw.clear();
                    other.encode(&mut raw);
                }
            } else if let Some(request) = state.requests.get_mut(&number) {
                request.reply = Some(frame);
            }
        }
        if passes {
            link.push(TO_CLIENT, What::Bytes(raw));
        }
    }
    Ok(used)
}

/// Delivers one direction to its end.
fn write(shared: &Shared, id: u64, way: usize, mut to: TcpStream) {
    let mut broken = false;
    while let Some(what) = next(shared, id, way) {
        match what {
            What::Bytes(bytes) => {
                broken = broken || to.write_all(&bytes).is_err();
                // A server that is gone resets the connection; a client that is gone leaves the server to find out.
                if broken && way == TO_SERVER {
                    return shared.change(|state| state.end(id));
                }
            }
            What::End if way == TO_SERVER => drop(to.shutdown(Shutdown::Write)),
            What::End => return shared.change(|state| state.end(id)),
            What::Cut(trap) => {
                // In this order: a client that sees its connection closed may ask the trap at once.
                return shared.change(|state| {
                    trap.has_worked();
                    state.end(id);
                });
            }
            What::Hold(_) => {}
        }
        shared.change(|state| {
            if let Some(link) = state.links.get_mut(&id) {
                link.writing[way] = false;
            }
        });
    }
}

/// Waits for what is to be delivered next; `None` when the connection is gone.
fn next(shared: &Shared, id: u64, way: usize) -> Option<What> {
    let mut state = shared.lock();
    loop {
        let (frozen, delay) = (state.frozen[way], state.delay[way]);
        let link = state.links.get_mut(&id)?;
        let mut until = None;
        if let Some(item) = link.front(way).filter(|_| !frozen) {
            let due = item.arrived + delay;
            if due <= Instant::now() {
                link.writing[way] = true;
                return link.pop(way);
            }
            until = Some(due);
        }
        state = shared.wait(state, until);
    }
}
