//! Reserved names: keys and channels that belong to other locks.
//!
//! A lock with a reserved name would also be the queue, index or register of another lock. Scripts of that lock would
//! change and delete it during a hold.

/// The prefixes of Redisson's keys and channels, and how error messages show them.
const BEGINNINGS: [(&str, &str); 8] = [
    ("redisson_lock__channel:", "redisson_lock__channel:…"),
    ("redisson_lock_queue:", "redisson_lock_queue:…"),
    ("redisson_lock_timeout:", "redisson_lock_timeout:…"),
    ("redisson_lock_token:", "redisson_lock_token:…"),
    ("redisson_unlock_latch:", "redisson_unlock_latch:…"),
    ("redisson_rwlock:", "redisson_rwlock:…"),
    ("redisson_sc:", "redisson_sc:…"),
    ("redisson_countdownlatch__channel__{", "redisson_countdownlatch__channel__{…"),
];

/// The reserved form that `raw` matches, if any.
///
/// Suffixes only count in names with a brace, which may be a lock's name plus a suffix
/// ([`suffixed`](super::LockName::suffixed)).
pub(super) fn form(raw: &str) -> Option<&'static str> {
    let beginning = BEGINNINGS.iter().find(|(beginning, _)| raw.starts_with(beginning)).map(|(_, form)| *form);
    beginning.or_else(|| is_ours(raw).then_some("leasehold:1:…")).or_else(|| {
        let (_, tagged) = raw.split_once('{')?;
        match tagged.rsplit_once(':')? {
            (_, "timeout") => Some("{…}:timeout"),
            (rest, number) if is_decimal(number) && rest.ends_with(":rwlock_timeout") => Some("{…}:…:rwlock_timeout:1"),
            _ => None,
        }
    })
}

/// Returns whether the name has the prefix of this library's keys, in any version of the layout: `leasehold:1:`.
fn is_ours(raw: &str) -> bool {
    raw.strip_prefix("leasehold:").and_then(|rest| rest.split_once(':')).is_some_and(|(number, _)| is_decimal(number))
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::form;

    #[test]
    fn what_belongs_to_locks_is_told_from_what_only_looks_like_it() {
        for reserved in [
            "redisson_lock_queue:{stock}",
            "redisson_lock_queue:{shop}:stock",
            "redisson_unlock_latch:{stock}:00ff",
            "redisson_countdownlatch__channel__{stock}",
            "leasehold:1:fence:{stock}",
            "leasehold:1:client:6f0c",
            "leasehold:12:anything",
            "{stock}:timeout",
            "{shop}:stock:timeout",
            "a{b:timeout",
            "{stock}:6f0c:7:rwlock_timeout:1",
            "{shop}:stock:6f0c:7:rwlock_timeout:12",
        ] {
            assert!(form(reserved).is_some(), "{reserved}");
        }
        for free in [
            "stock",
            "timeout",
            "job:timeout",
            "job:7:rwlock_timeout:1",
            "redisson_lock_queue",
            "redisson_lock",
            "my:redisson_lock_queue:{stock}",
            "leasehold",
            "leasehold:stock",
            "leasehold:v1:stock",
            "leasehold::stock",
            "app:leasehold:1:fence:{stock}",
            "{job}:timeouts",
            "{job}:timeout:1",
            "{job}:rwlock_timeout:first",
            "{job}timeout",
        ] {
            assert_eq!(form(free), None, "{free}");
        }
    }
}
