//! Records which client holds how much of a limited resource, and decides who gives some up for whom.
//!
//! This is a pure state machine: time is an argument, and callers end the evicted holders. If a client asks for more
//! than is left, others lose what they hold in this order:
//!
//! 1. the slowest holder of the client that holds most, if that client holds more than the asking client would;
//! 2. the slowest holder of the asking client that waits for the client and holds more than the asking holder would;
//! 3. the slowest holder of all, if it made no progress for [`STALLED`] and is slower than the asking holder. A holder
//!    that waits for this process and not for its client is never slow.
//!
//! So a client that holds little always gets in beside a client that holds much, however fast the large client asks
//! again. A small request gets in beside a large request that makes no progress. Among equals, those that make progress
//! keep their place.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use slab::Slab;
use tokio::time::Instant;

use crate::clients::Client;

/// A holder without progress for this long may lose its place to any client when nothing is left. A client on a slow
/// line with a round trip of 300 ms still makes progress within this time.
pub(super) const STALLED: Duration = Duration::from_millis(500);

/// How many of a client's slowest holders are searched for one that has more than the asker.
const LOOKED_AT: usize = 64;

/// Names one holder. An id is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HolderId {
    entered: u64,
    /// Its place among the holders, which another one may have after it.
    place: usize,
}

impl HolderId {
    pub(super) const FIRST: Self = Self { entered: 0, place: 0 };
}

/// Nothing is left, and no holder has to give up its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Evicted<H> {
    pub(super) handle: H,
    /// How much it held.
    pub(super) units: u64,
}

struct Holder<H> {
    entered: u64,
    /// The place of its client's share.
    share: usize,
    units: u64,
    /// When the holder began or last made progress.
    since: Instant,
    /// Whether the holder waits for this process and not for its client.
    is_ours: bool,
    handle: H,
}

/// One client's share: its units, and all its holders, slowest first.
struct Share {
    client: Client,
    units: u64,
    by_slowness: BTreeSet<(Instant, HolderId)>,
}

pub(super) struct Shares<H> {
    limit: u64,
    held: u64,
    entered: u64,
    holders: Slab<Holder<H>>,
    places: Slab<Share>,
    /// The place of each client's share. To hash an address costs as much as all else that is done for a holder, so it is done
    /// once for each.
    by_client: HashMap<Client, usize>,
    /// Every client, by how much it holds.
    by_units: BTreeSet<(u64, Client)>,
    /// Every holder that waits for its client, by when it began or last made progress.
    by_slowness: BTreeSet<(Instant, HolderId)>,
}

impl<H> Shares<H> {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            held: 0,
            entered: 0,
            holders: Slab::new(),
            places: Slab::new(),
            by_client: HashMap::new(),
            by_units: BTreeSet::new(),
            by_slowness: BTreeSet::new(),
        }
    }

    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn held_by(&self, client: Client) -> u64 {
        self.by_client.get(&client).map_or(0, |&share| self.places[share].units)
    }

    /// Adds a holder of `units`, which waits for this process (`is_ours`) or for its client. Holders that lose their place for
    /// the new one are put into `evicted`.
    ///
    /// Holders may lose their place even if the result is [`Full`]; each of these was slow or belonged to a client that
    /// holds more.
    pub(super) fn enter(
        &mut self,
        client: Client,
        units: u64,
        is_ours: bool,
        now: Instant,
        handle: H,
        evicted: &mut Vec<Evicted<H>>,
    ) -> Result<HolderId, Full> {
        self.make_room(client, units, now, None, now, evicted)?;
        let (entered, share) = (self.entered, self.share_of(client));
        self.entered += 1;
        let place = self.holders.insert(Holder { entered, share, units, since: now, is_ours, handle });
        let id = HolderId { entered, place };
        self.join(id);
        Ok(id)
    }

    /// Gives `units` more to a holder and evicts others for it, like [`Self::enter`]. For an evicted holder the result
    /// is [`Full`].
    pub(super) fn grow(
        &mut self,
        id: HolderId,
        units: u64,
        now: Instant,
        evicted: &mut Vec<Evicted<H>>,
    ) -> Result<(), Full> {
        let Holder { share, since, .. } = self.holder(id).ok_or(Full)?;
        self.make_room(self.places[*share].client, units, *since, Some(id), now, evicted)?;
        self.resize(id, |held| held + units);
        Ok(())
    }

    /// Gives `units` more to a holder, even beyond the limit; `None` if it was evicted.
    pub(super) fn force(&mut self, id: HolderId, units: u64) -> Option<()> {
        self.resize(id, |held| held + units)
    }

    /// Takes back what a holder has beyond `units`; `None` if it was evicted.
    pub(super) fn shrink_to(&mut self, id: HolderId, units: u64) -> Option<()> {
        self.resize(id, |held| held.min(units))
    }

    pub(super) fn progress(&mut self, id: HolderId, now: Instant) {
        self.reorder(id, |holder| holder.since = now);
    }

    /// Records that from `now` on a holder waits for this process (`is_ours`) or for its client.
    pub(super) fn wait_for_us(&mut self, id: HolderId, is_ours: bool, now: Instant) {
        self.reorder(id, |holder| (holder.is_ours, holder.since) = (is_ours, now));
    }

    /// Whether `client`, with `units` more, would hold at most half of what the heaviest client holds.
    pub(super) fn is_light(&self, client: Client, units: u64) -> bool {
        let heaviest = self.by_units.last().map_or(0, |(held, _)| *held);
        self.held_by(client) + units <= heaviest / 2
    }

    pub(super) fn client_of(&self, id: HolderId) -> Option<Client> {
        self.holder(id).map(|holder| self.places[holder.share].client)
    }

    pub(super) fn move_to(&mut self, id: HolderId, client: Client) {
        if self.part(id).is_some() {
            self.holders[id.place].share = self.share_of(client);
            self.join(id);
        }
    }

    /// Removes a holder; `None` if it was evicted before.
    pub(super) fn leave(&mut self, id: HolderId) -> Option<Evicted<H>> {
        self.part(id)?;
        let Holder { handle, units, .. } = self.holders.remove(id.place);
        Some(Evicted { handle, units })
    }

    pub(super) fn slowest_of(&self, client: Client) -> Option<HolderId> {
        self.places[*self.by_client.get(&client)?].by_slowness.first().map(|(_, id)| *id)
    }

    /// Evicts holders until `units` fit. Fails with [`Full`] if no holder has to give way.
    fn make_room(
        &mut self,
        client: Client,
        units: u64,
        since: Instant,
        asker: Option<HolderId>,
        now: Instant,
        evicted: &mut Vec<Evicted<H>>,
    ) -> Result<(), Full> {
        if units > self.limit {
            return Err(Full);
        }
        while self.held + units > self.limit {
            let would_hold = self.held_by(client) + units;
            let of_heaviest = self
                .by_units
                .last()
                .filter(|(held, heaviest)| *held > would_hold && *heaviest != client)
                .and_then(|(_, heaviest)| self.slowest_of(*heaviest));
            let stalled = || {
                let is_stalled = |of: Instant| of < since && now.saturating_duration_since(of) >= STALLED;
                let mut others = self.by_slowness.iter().filter(|(_, id)| Some(*id) != asker);
                others.next().filter(|(of, _)| is_stalled(*of)).map(|(_, id)| *id)
            };
            let victim = of_heaviest.or_else(|| self.larger_of(client, units, since, asker)).or_else(stalled);
            let victim = victim.ok_or(Full)?;
            evicted.extend(self.leave(victim));
        }
        Ok(())
    }

    /// A slow holder of `client` that has more than `asker` would have with `units` more, and is slower than `asker`.
    fn larger_of(&self, client: Client, units: u64, since: Instant, asker: Option<HolderId>) -> Option<HolderId> {
        let would_hold = units + asker.and_then(|asker| self.holder(asker)).map_or(0, |asker| asker.units);
        let slowest = self.places[*self.by_client.get(&client)?].by_slowness.iter().take(LOOKED_AT);
        let gives_way = |id: HolderId| {
            let holder = self.holder(id)?;
            (!holder.is_ours && holder.since < since && holder.units > would_hold).then_some(id)
        };
        slowest.filter(|(_, id)| Some(*id) != asker).find_map(|(_, id)| gives_way(*id))
    }

    /// Changes how much a holder has; `None` if it was evicted.
    fn resize(&mut self, id: HolderId, units: impl FnOnce(u64) -> u64) -> Option<()> {
        let holder = holder_mut(&mut self.holders, id)?;
        let before = holder.units;
        holder.units = units(before);
        self.held = self.held - before + holder.units;
        let share = &mut self.places[holder.share];
        self.by_units.remove(&(share.units, share.client));
        share.units = share.units - before + holder.units;
        self.by_units.insert((share.units, share.client));
        Some(())
    }

    /// Changes what decides how slow a holder is.
    fn reorder(&mut self, id: HolderId, change: impl FnOnce(&mut Holder<H>)) {
        let Some(holder) = holder_mut(&mut self.holders, id) else { return };
        if !holder.is_ours {
            self.by_slowness.remove(&(holder.since, id));
        }
        let share = &mut self.places[holder.share];
        share.by_slowness.remove(&(holder.since, id));
        change(holder);
        share.by_slowness.insert((holder.since, id));
        if !holder.is_ours {
            self.by_slowness.insert((holder.since, id));
        }
    }

    fn holder(&self, id: HolderId) -> Option<&Holder<H>> {
        self.holders.get(id.place).filter(|holder| holder.entered == id.entered)
    }

    /// The place of the share of `client`, which may be new.
    fn share_of(&mut self, client: Client) -> usize {
        let new = || self.places.insert(Share { client, units: 0, by_slowness: BTreeSet::new() });
        *self.by_client.entry(client).or_insert_with(new)
    }

    /// Counts a holder, which has a place.
    fn join(&mut self, id: HolderId) {
        let holder = &self.holders[id.place];
        self.held += holder.units;
        if !holder.is_ours {
            self.by_slowness.insert((holder.since, id));
        }
        let share = &mut self.places[holder.share];
        self.by_units.remove(&(share.units, share.client));
        share.units += holder.units;
        share.by_slowness.insert((holder.since, id));
        self.by_units.insert((share.units, share.client));
    }

    /// Counts a holder no more, but leaves it its place; `None` if it was evicted.
    fn part(&mut self, id: HolderId) -> Option<()> {
        let holder = holder_mut(&mut self.holders, id)?;
        self.held -= holder.units;
        if !holder.is_ours {
            self.by_slowness.remove(&(holder.since, id));
        }
        let share = &mut self.places[holder.share];
        self.by_units.remove(&(share.units, share.client));
        share.units -= holder.units;
        share.by_slowness.remove(&(holder.since, id));
        if share.by_slowness.is_empty() {
            self.by_client.remove(&share.client);
            self.places.remove(holder.share);
        } else {
            self.by_units.insert((share.units, share.client));
        }
        Some(())
    }
}

fn holder_mut<H>(holders: &mut Slab<Holder<H>>, id: HolderId) -> Option<&mut Holder<H>> {
    holders.get_mut(id.place).filter(|holder| holder.entered == id.entered)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    fn client(number: u8) -> Client {
        Client::from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)))
    }

    /// Shares whose handles are names, and their clock.
    struct Played {
        shares: Shares<&'static str>,
        now: Instant,
    }

    impl Played {
        fn new(limit: u64) -> Self {
            Self { shares: Shares::new(limit), now: Instant::now() }
        }

        fn enter(&mut self, of: u8, units: u64, name: &'static str) -> (Result<HolderId, Full>, Vec<&'static str>) {
            self.now += SOON;
            let mut evicted = Vec::new();
            let entered = self.shares.enter(client(of), units, false, self.now, name, &mut evicted);
            (entered, evicted.into_iter().map(|evicted| evicted.handle).collect())
        }

        fn fits(&mut self, of: u8, units: u64, name: &'static str) -> HolderId {
            let (entered, evicted) = self.enter(of, units, name);
            assert!(evicted.is_empty(), "{evicted:?}");
            entered.unwrap()
        }
    }

    #[tokio::test]
    async fn what_was_given_back_can_be_taken_again() {
        let mut played = Played::new(10);
        let first = played.fits(1, 10, "first");
        assert_eq!(played.enter(1, 10, "second"), (Err(Full), vec![]));
        played.shares.shrink_to(first, 4);
        played.fits(1, 6, "third");
        played.shares.leave(first);
        assert_eq!((played.shares.held(), played.shares.held_by(client(1))), (6, 6));
    }

    #[tokio::test]
    async fn the_client_that_holds_most_makes_room_for_another_its_slowest_first() {
        let mut played = Played::new(100);
        played.fits(2, 20, "small");
        let slow = played.fits(1, 30, "once slow");
        played.fits(1, 30, "slowest");
        played.fits(1, 20, "fast");
        played.now += SOON;
        played.shares.progress(slow, played.now);
        let (entered, evicted) = played.enter(3, 25, "honest");
        assert!(entered.is_ok());
        assert_eq!(evicted, ["slowest"]);
    }

    #[tokio::test]
    async fn a_client_gets_no_room_from_one_that_holds_less_than_it_would() {
        let mut played = Played::new(100);
        played.fits(1, 50, "of the one");
        played.fits(2, 50, "of the other");
        assert_eq!(played.enter(2, 50, "more"), (Err(Full), vec![]));
        assert_eq!(played.enter(3, 50, "as much"), (Err(Full), vec![]));
        assert_eq!(played.enter(3, 101, "more than there is"), (Err(Full), vec![]));
    }

    #[tokio::test]
    async fn who_made_no_progress_makes_room_for_anybody_and_others_do_not() {
        let mut played = Played::new(100);
        let moving = played.fits(1, 50, "moving");
        played.fits(1, 50, "stalled");
        played.now += STALLED;
        played.shares.progress(moving, played.now);
        let (entered, evicted) = played.enter(1, 50, "newcomer");
        assert!(entered.is_ok());
        assert_eq!(evicted, ["stalled"]);
        assert_eq!(played.enter(1, 50, "one more"), (Err(Full), vec![]));
    }

    #[tokio::test]
    async fn who_waits_for_us_is_not_slow_but_gives_way_as_any_other_of_its_client() {
        let mut played = Played::new(100);
        let ours = played.fits(1, 100, "ours");
        played.shares.wait_for_us(ours, true, played.now);
        played.now += 2 * STALLED;
        assert_eq!(played.enter(1, 10, "of the same").0, Err(Full));
        played.shares.wait_for_us(ours, false, played.now);
        assert_eq!(played.enter(1, 100, "of the same").0, Err(Full), "its client's time begins now");
        played.shares.wait_for_us(ours, true, played.now);
        assert_eq!(played.enter(2, 10, "of another").1, ["ours"]);
    }

    #[tokio::test]
    async fn of_one_client_what_is_large_and_slow_makes_room_for_what_is_small() {
        let mut played = Played::new(100);
        let fast = played.fits(1, 40, "large and fast");
        played.fits(1, 10, "small");
        played.fits(1, 50, "large and slow");
        played.now += SOON;
        played.shares.progress(fast, played.now);
        assert_eq!(played.enter(1, 20, "another").1, ["large and slow"]);
        assert_eq!(played.enter(1, 60, "larger than all"), (Err(Full), vec![]));
    }

    #[tokio::test]
    async fn a_client_is_light_beside_one_with_twice_as_much() {
        let mut played = Played::new(100);
        played.fits(1, 40, "heavy");
        played.fits(2, 10, "light");
        assert!(played.shares.is_light(client(2), 10) && played.shares.is_light(client(3), 20));
        assert!(!played.shares.is_light(client(2), 11) && !played.shares.is_light(client(1), 1));
    }

    #[tokio::test]
    async fn a_holder_grows_at_the_cost_of_slower_ones_and_never_at_its_own() {
        let mut played = Played::new(100);
        let growing = played.fits(1, 60, "growing");
        played.fits(1, 40, "other");
        played.now += STALLED;
        let mut evicted = Vec::new();
        assert_eq!(played.shares.grow(growing, 10, played.now, &mut evicted), Err(Full), "it is the slowest");
        played.shares.progress(growing, played.now);
        assert_eq!(played.shares.grow(growing, 10, played.now, &mut evicted), Ok(()));
        assert_eq!(evicted, [Evicted { handle: "other", units: 40 }]);
        assert_eq!(played.shares.held(), 70);
    }

    #[tokio::test]
    async fn an_evicted_holder_gets_nothing_more_and_gives_nothing_back() {
        let mut played = Played::new(100);
        let first = played.fits(1, 100, "first");
        assert_eq!(played.enter(2, 10, "second").1, ["first"]);
        let mut evicted = Vec::new();
        assert_eq!(played.shares.grow(first, 1, played.now, &mut evicted), Err(Full));
        assert_eq!(played.shares.force(first, 1), None);
        played.shares.progress(first, played.now);
        assert_eq!(played.shares.leave(first), None);
        assert_eq!(played.shares.held(), 10);
    }

    #[tokio::test]
    async fn ten_thousand_holders_of_a_hundred_clients_keep_no_newcomer_out() {
        let mut played = Played::new(100 * 100);
        for round in 0..100 {
            for of in 0..100 {
                played.fits(of, 1, if round == 0 { "first" } else { "later" });
            }
        }
        let (entered, evicted) = played.enter(200, 5, "honest");
        assert!(entered.is_ok());
        assert_eq!(evicted, ["first"; 5], "of five clients that then hold equally much");
    }

    #[tokio::test]
    async fn what_moves_to_another_client_counts_as_its_own() {
        let mut played = Played::new(100);
        let of_a_proxy = played.fits(1, 80, "through a proxy");
        played.shares.move_to(of_a_proxy, client(2));
        assert_eq!((played.shares.held_by(client(1)), played.shares.held_by(client(2))), (0, 80));
        assert_eq!(played.enter(1, 30, "another").1, ["through a proxy"]);
    }
}
