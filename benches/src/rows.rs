//! The work of each row.

mod hot;
mod pairs;
mod standing;
mod wake;

use crate::{crew::Crew, figures::Figures, row::Row};

/// Measures one row for all peers that take part in it.
pub(crate) fn measure(row: Row, crew: &mut Crew<'_>, figures: &mut Figures) {
    match row {
        Row::Pairs => pairs::measure(crew, figures),
        Row::Beside => pairs::beside(crew, figures),
        Row::Wake => wake::measure(crew, figures),
        Row::Hot => hot::in_one_process(crew, figures),
        Row::Contended => hot::in_four_processes(crew, figures),
        Row::Queue => standing::queues(crew, figures),
        Row::Held => standing::held(crew, figures),
        Row::Waiters => standing::waiters(crew, figures),
    }
}
