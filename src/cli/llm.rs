//! Temporary.
use crate::{
    cli::{Context, failure::Result},
    llm::{ReplyStore, ledger::Ceilings},
    tools::Assistant,
};
use anyhow::anyhow;
use std::sync::Arc;
#[derive(Debug, clap::Args)]
pub(super) struct LlmArgs {
    /// Language model
    #[arg(long, value_name = "M")]
    pub(super) model: Option<String>,
}
pub(super) struct Opened {
    pub(super) assistant: Arc<Assistant>,
}
impl Opened {
    pub(super) fn finish(&self, _: &Context) -> Result<()> {
        Ok(())
    }
}
pub(super) fn check(_: &LlmArgs, _: &Context) -> Result<()> {
    Ok(())
}
pub(super) fn open(
    _: &LlmArgs,
    _: Option<Arc<dyn ReplyStore>>,
    _: Ceilings,
    _: &Context,
) -> Result<Opened> {
    Err(anyhow!("x").into())
}
