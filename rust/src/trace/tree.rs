//! Spans as indented text, for tests and for reading.

use super::SpanRecord;
use std::fmt::Write;

/// One line for each span: launches in the order of their numbers, spans of a launch in the order in which they began,
/// indented by depth. Times are left out, so that two runs of one program give one text (where one thread does the work).
pub fn tree(spans: &[SpanRecord]) -> String {
    let mut spans = spans.to_vec();
    spans.sort_by_key(|span| (span.invocation, span.begin_ns, span.name.depth(), u64::MAX - span.end_ns()));
    let mut text = String::new();
    for span in spans {
        let depth = span.name.depth();
        let _ = write!(text, "{:width$}{}", "", span.name.leaf(), width = 2 * depth);
        if let Some(word) = span.name.attribute() {
            let _ = write!(text, " {word}={}", span.arg);
        }
        match span.track.core_index() {
            Some(core) => _ = write!(text, " [core {core}]"),
            None if span.track.is_device() => text.push_str(" [dev]"),
            None => {}
        }
        text.push('\n');
    }
    text
}
