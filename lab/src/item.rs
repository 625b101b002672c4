//! What of a paper can be measured again.

use crate::{Error, Lab, Report};

/// A table or figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Its name on the command line, `paper/item`.
    pub id: &'static str,
    /// The folder under `lab/papers/` that its results go to.
    pub folder: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Runs the experiment. The report gets its title from the item.
    pub run: fn(&Lab) -> Result<Report, Error>,
}

impl Item {
    /// Runs the experiment.
    pub fn measure(&self, lab: &Lab) -> Result<Report, Error> {
        Ok(Report { title: self.title.into(), ..(self.run)(lab)? })
    }

    /// Its name without the paper's: that of the file with its result.
    pub fn name(&self) -> &'static str {
        self.id.rsplit('/').next().expect("an id has parts")
    }
}
