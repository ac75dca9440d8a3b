use std::fmt;

/// Declares the lies, each with the rules that must catch it.
macro_rules! lies {
    ($($(#[$doc:meta])+ $lie:ident => $($rule:literal)+),+ $(,)?) => {
        /// One broken clause.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Lie { $($(#[$doc])+ $lie),+ }

        impl Lie {
            /// Every lie there is.
            pub const ALL: &[Self] = &[$(Self::$lie),+];

            /// The rules that must catch it, as `area::rule`.
            #[must_use]
            pub const fn caught_by(self) -> &'static [&'static str] {
                match self { $(Self::$lie => &[$($rule),+]),+ }
            }
        }
    };
}

lies! {
    /// Grants the second in line too.
    SecondHolder => "exclusion::one_holder",
    /// Grants everybody who races through an unguarded moment between looking and writing.
    LooksThenWrites => "exclusion::race",
    /// The same, asked by claims that do not wait.
    TriesLookThenWrite => "exclusion::race_without_waiting",
    /// `GETSET` with client clocks: whether the lease has ended is judged by the clock of whoever asks.
    ClientClocks => "exclusion::clients_with_other_clocks",
    /// `GETSET`: whoever asks in vain overwrites the holder's deadline with their own.
    WaiterProlongsHolder => "lapse::a_waiter_does_not_prolong_the_holder",
    /// Gives the number of the grant before.
    ReusedFence => "fence::grows_with_every_grant",
    /// Forgets the last number of a key as soon as nobody uses it for a while.
    FenceGoesBackAfterIdle => "fence::grows_after_idle",
    /// Does not lift numbers to a floor.
    FloorIgnored => "fence::respects_the_floor",
    /// Does not raise the last number when a renewal carries a floor.
    RenewIgnoresFloor => "fence::renewing_raises_to_the_floor",
    /// Deletes without asking whose: a release removes whoever is first.
    DeletesWithoutAsking => "release::by_a_stale_owner_frees_nobody",
    /// A release takes the next in line along.
    ReleasesAnotherToo => "release::touches_no_other_claim",
    /// Asks whose it is, then deletes: in between it may have become another's.
    AskThenDelete => "release::paused_anywhere_frees_nobody_else",
    /// A release forgets the waiters.
    ForgetsTheLine => "release::leaves_the_line_alone",
    /// Says `Freed` when there was nothing to free.
    AlwaysFreed => "release::twice_is_not_held",
    /// Takes the place, holds, and says `Busy`.
    BusyAfterGranting => "attempt::says_so_when_it_holds",
    /// A repeated attempt takes a second place.
    DuplicatePlace => "attempt::repeated_is_one_place",
    /// A repeated attempt takes a new number.
    NewNumberOnRepeat => "replies::attempt_lost_after_the_effect",
    /// A waiter that asks again goes to the end of the line.
    RepeatLosesRank => "attempt::repeated_by_a_waiter_is_one_place",
    /// A claim that does not wait leaves a place behind.
    TryLeavesAPlace => "attempt::try_leaves_nothing_behind",
    /// A repeated attempt changes the mode of its place.
    AttemptChangesMode => "attempt::never_changes_the_mode",
    /// A repeated attempt sets the deadline, even to an earlier one.
    LeaseShortenedByAttempt => "attempt::never_shortens_a_lease",
    /// A renewal sets the deadline, even to an earlier one.
    LeaseShortenedByRenew => "renew::never_shortens_a_lease",
    /// A waiting place keeps its first deadline, however often its claim asks.
    WaiterNotRefreshed => "attempt::refreshes_a_waiting_place",
    /// Tells a waiter that its place lives longer than it does: a push would be believed too long.
    WaitersLiveTooLong => "attempt::says_how_long_a_waiting_place_lives",
    /// `SETNX` then `EXPIRE`: a client that dies in between leaves a place without an end.
    SetnxThenExpire => "lapse::an_abandoned_attempt_ends_too",
    /// Never ends a lease.
    NeverExpires => "lapse::the_next_gets_in",
    /// Ends a lease early.
    ExpiresEarly => "lapse::not_before_its_time",
    /// Ends a lease one instant late.
    ExpiresLate => "lapse::ends_at_the_instant",
    /// Ends only the leases of holders.
    WaitersNeverExpire => "lapse::a_waiting_place_ends_too",
    /// Says that the lease ahead lasts longer than it does.
    LapsesTooLate => "lapse::busy_says_when",
    /// Renews by the claim id alone.
    RenewById => "renew::wrong_number_is_lost_and_creates_nothing",
    /// A renewal brings the place back.
    RenewRecreates => "renew::after_lapse_is_lost_and_creates_nothing",
    /// Answers a batch in another order.
    RenewOutOfOrder => "renew::answers_in_order",
    /// Last come, first served.
    LastComeFirstServed => "order::first_come_first_served",
    /// A newcomer that finds the key free overtakes the line.
    NewcomerOvertakes => "order::a_newcomer_does_not_overtake",
    /// A waiter that is behind others never holds.
    StarvesTheLast => "order::waiters_are_never_forgotten",
    /// Readers overtake a waiting writer.
    ReadersOvertakeWriter => "shared::a_waiting_writer_is_not_overtaken",
    /// A writer holds beside one reader.
    WriterBesideReader => "shared::a_writer_waits_for_all_readers",
    /// Gives one permit too many.
    PermitsOffByOne => "permits::never_more_than_all",
    /// Counts permits without asking of how many.
    MixesTotals => "permits::other_totals_do_not_mix",
    /// Adds permits in 32 bits.
    PermitsWrap => "permits::all_at_once",
    /// Declares no shared claims and grants them all the same.
    GrantsUndeclaredShared => "modes::undeclared_shared_is_refused",
    /// Declares no permits, and refuses them after it has written.
    RefusesPermitsLate => "modes::undeclared_permits_are_refused",
    /// A downgrade takes a new number.
    DowngradeTakesNewNumber => "downgrade::keeps_its_number",
    /// A downgrade lets nobody in.
    DowngradeChangesNothing => "downgrade::lets_readers_in",
    /// A downgrade tells nobody.
    DowngradeTellsNobody => "downgrade::tells_the_readers",
    /// A release tells nobody.
    TellsNobody => "turn::comes_after_release",
    /// Tells only those who already listen when it happens.
    TellsOnlyListeners => "turn::comes_if_the_release_was_first",
    /// Tells only the first of those who now hold.
    TellsOnlyTheFirst => "turn::comes_to_every_reader",
    /// Says that a waiter holds while it waits.
    PushLies => "turn::does_not_lie_while_waiting",
    /// Removes what has ended without telling those who now hold.
    PurgeTellsNobody => "turn::comes_after_a_lease_that_ended",
    /// Shows places whose lease has ended.
    LineShowsExpired => "line::hides_expired_places",
    /// Shows every place as a holder.
    LineShowsAllAsHolders => "line::tells_the_truth_when_quiet",
    /// Takes a prefix for a pattern.
    PrefixIsAPattern => "line::filters_by_prefix",
    /// Lists more places than were asked for.
    LimitIgnored => "line::keeps_to_the_limit",
    /// Folds the case of keys.
    KeyFoldsCase => "keys::case_counts",
    /// Cuts long keys.
    KeyTruncated => "keys::the_longest_are_told_apart",
    /// Cuts keys at a NUL.
    KeyEndsAtNul => "keys::each_locks_only_itself",
    /// Evicts whoever holds, not whom the operator looked at.
    EvictsTheWrongHold => "evict::a_wrong_number_touches_nobody",
    /// A gentle eviction frees at once.
    GentlyFreesAtOnce => "evict::gently_never_two_holders",
    /// An attempt prolongs a gently evicted place.
    StoppedIsProlonged => "evict::gently_frees_at_the_deadline",
    /// A gently evicted holder that asks again is promised a whole lease.
    StoppedIsGranted => "evict::gently_stopped_is_not_granted_anew",
    /// An evicted waiter gets back into the line.
    EvictedQueuesAgain => "evict::an_evicted_waiter_stays_out",
    /// Tells the owner of a loss under another number.
    LossUnderAnotherNumber => "evict::the_owner_is_told",
    /// A release that was dropped half way cannot be asked again.
    HalfRelease => "cancel::release_can_be_asked_again",
    /// A place that was taken by a dropped attempt cannot be released.
    HalfAttempt => "cancel::attempt_leaves_nothing",
    /// Lets a claim hold that fits beside each place ahead, though one of those waits.
    HoldersAreNoPrefix => "permits::nobody_holds_behind_one_who_waits" "differential::agrees_with_the_model",
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
