//! Whether the Sentinels can replace a failed primary.

use super::Finding;
use crate::args::ServerOptions;
use crate::raw;

/// Evaluates each Sentinel of the URL.
pub(super) async fn judge(options: &ServerOptions) -> Vec<Finding> {
    let answers = raw::ask_sentinels(options, "CKQUORUM").await;
    answers.into_iter().map(|(server, answer)| Finding { server: Some(server), ..of_answer(answer) }).collect()
}

fn of_answer(answer: Result<String, String>) -> Finding {
    match answer {
        Ok(text) => Finding::good("sentinel", text),
        Err(why) if why.contains("NOQUORUM") || why.contains("NOAUTH") => {
            let advice = "the Sentinels cannot replace a failed primary; see SENTINEL SENTINELS, and start the missing Sentinels";
            Finding::fault("sentinel", why, advice)
        }
        Err(why) => Finding::note("sentinel", why, "start this Sentinel, or remove it from the URL"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn quorum_that_cannot_be_reached_is_a_fault() {
        let verdict = |answer: Result<&str, &str>| of_answer(answer.map(str::to_owned).map_err(str::to_owned)).verdict;
        assert_eq!(verdict(Ok("OK 3 usable Sentinels")), Verdict::Good);
        assert_eq!(verdict(Err("NOQUORUM 1 usable Sentinels")), Verdict::Fault);
        assert_eq!(verdict(Err("unreachable: refused")), Verdict::Note);
    }
}
