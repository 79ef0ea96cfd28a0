//! The types that can be sent to other threads. It is checked when this is compiled.

use leasehold_core::call::Call;
use leasehold_core::link::Link;
use leasehold_embedded::{EmbeddedLink, EmbeddedServer, ManualClock, Recorder, ServerClock, Sleep};

const fn everywhere<T: Send + Sync + 'static>() {}

const _: () = {
    everywhere::<EmbeddedServer>();
    everywhere::<EmbeddedLink>();
    everywhere::<Recorder>();
    everywhere::<ServerClock>();
    everywhere::<ManualClock>();
    everywhere::<Sleep>();
};

fn is_send<T: Send>(_: T) {}

#[expect(dead_code, reason = "compiling it is the test")]
fn futures_of_a_link(link: &EmbeddedLink, call: Call) {
    is_send(link.call(call));
    is_send(link.settle("k".into(), false));
    is_send(link.subscribe("c".into()));
    is_send(link.unsubscribe("c".into()));
    is_send(link.event());
    is_send(link.close());
}
