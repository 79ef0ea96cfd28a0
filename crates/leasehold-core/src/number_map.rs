//! Maps whose keys are numbers that the session itself gives out.

/// A map by numbers that count up: the session chooses them itself, so that no attack has to be feared and a quick hash will do.
pub(crate) type NumberMap<K, V> = rustc_hash::FxHashMap<K, V>;
