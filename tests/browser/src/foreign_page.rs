//! A page from elsewhere that does what it can to free a lock. It has another port, and so another origin.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Serves one page for as long as the program runs, and returns its port.
pub(crate) fn serve(html: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let html = html.clone();
            thread::spawn(move || answer(stream, &html));
        }
    });
    port
}

fn answer(mut stream: TcpStream, html: &str) {
    let mut head = [0; 4096];
    // A browser that goes away needs no answer.
    let _ = stream.read(&mut head);
    let length = html.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(html.as_bytes()));
}
