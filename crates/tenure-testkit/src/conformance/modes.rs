use tenure_core::{Claim, ErrorKind};

use crate::{Cx, Failure, Result, ensure, ensure_eq, steps::*};

super::area! { "modes":
    undeclared_shared_is_refused (NoShared),
    undeclared_permits_are_refused (NoPermits),
    guarantees_stay,
    clients_know_they_share_a_store,
}

/// An engine that declares no shared claims refuses them before it writes anything.
async fn undeclared_shared_is_refused(cx: Cx) -> Result<()> {
    refused(&cx, cx.shared()).await
}

/// An engine that declares no permits refuses them before it writes anything.
async fn undeclared_permits_are_refused(cx: Cx) -> Result<()> {
    refused(&cx, cx.permits(1, 2)?).await
}

async fn refused(cx: &Cx, claim: Claim) -> Result<()> {
    match cx.a.attempt(&claim).await {
        Ok(answer) => return Err(Failure::new(format!("an undeclared mode was answered {answer:?}"))),
        Err(error) => {
            ensure_eq!(error.kind(), ErrorKind::Unsupported, "the kind of the refusal");
            ensure!(!error.may_have_applied(), "a refusal before any I/O cannot have applied");
        }
    }
    nobody(&cx.b, &cx.key).await?;
    hold(&cx.b, &cx.exclusive()).await?;
    Ok(())
}

/// Every client declares what the suite was told, before and after use.
async fn guarantees_stay(cx: Cx) -> Result<()> {
    ensure_eq!(cx.a.guarantees(), cx.guarantees, "the guarantees of a fresh client");
    hold(&cx.a, &cx.exclusive()).await?;
    ensure_eq!(cx.a.guarantees(), cx.guarantees, "the guarantees of a used client");
    ensure_eq!(cx.b.guarantees(), cx.guarantees, "the guarantees of another client");
    Ok(())
}

/// Two clients of one store know each other by its identity, which stays.
async fn clients_know_they_share_a_store(cx: Cx) -> Result<()> {
    let identity = cx.a.identity();
    ensure_eq!(cx.b.identity(), identity, "the identity another client sees");
    hold(&cx.a, &cx.exclusive()).await?;
    ensure_eq!(cx.lab.open().await?.identity(), identity, "the identity a later client sees");
    Ok(())
}
