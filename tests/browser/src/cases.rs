//! The cases, each of which shows that a promise of the page is kept.

mod address;
mod crowd;
mod live;
mod names;
mod outage;
mod phone;
mod story;
mod unlock;
mod views;
mod without_script;

use crate::driver::Driver;
use std::pin::Pin;

/// A case: it panics where the promise is not kept.
pub(crate) type Case = for<'a> fn(&'a Driver) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// All of them, in the order in which they are run.
pub(crate) const ALL: [(&str, Case); 13] = [
    ("live", |driver| Box::pin(live::events_are_shown_within_a_second(driver))),
    ("crowd", |driver| Box::pin(crowd::events_are_shown_among_many_locks(driver))),
    ("usable", |driver| Box::pin(crowd::many_locks_stay_usable(driver))),
    ("without-script", |driver| Box::pin(without_script::tables_are_read_anew(driver))),
    ("names", |driver| Box::pin(names::names_are_texts(driver))),
    ("names-in-headers", |driver| Box::pin(names::name_adds_no_header(driver))),
    ("unlock", |driver| Box::pin(unlock::token_frees_and_nothing_else(driver))),
    ("foreign-pages", |driver| Box::pin(unlock::pages_from_elsewhere_free_nothing(driver))),
    ("address", |driver| Box::pin(address::page_is_for_this_machine(driver))),
    ("rebinding", |driver| Box::pin(address::another_name_reads_nothing(driver))),
    ("phone", |driver| Box::pin(phone::page_is_readable(driver))),
    ("views", |driver| Box::pin(views::views_have_addresses_and_keys(driver))),
    ("outage", |driver| Box::pin(outage::page_says_so_and_goes_on(driver))),
];
