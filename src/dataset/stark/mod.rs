//! Reads the official files of the STaRK benchmark: pickles, tensors and archives, safely.
//! Must not know Python: nothing of a file is ever run.

pub mod archive;
pub mod pickle;
pub mod torch;
