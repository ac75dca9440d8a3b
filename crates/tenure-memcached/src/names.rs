use tenure_core::{Address, ClaimId, Key};

/// The longest name that an item can have, in bytes.
const LONGEST: usize = 250;

/// What items are called.
///
/// Names are made of letters, digits and `-_.%~:` alone, so that no key can end a command or begin another.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    ns: String,
}

impl Names {
    pub(crate) fn new(ns: &str) -> Self {
        Self { ns: ns.to_owned() }
    }

    /// The line of a key. Long keys are cut and told apart by a digest; the line itself has the whole name.
    pub(crate) fn line(&self, key: &Key) -> String {
        format!("{}:line:{}", self.ns, key.to_path_element(LONGEST - self.ns.len() - ":line:".len()))
    }

    /// The lease of one place, on the server of its line.
    pub(crate) fn lease(&self, id: ClaimId, lease: Lease) -> String {
        format!("{}:lease:{id}{:016x}", self.ns, lease.0)
    }

    /// Which engine this is.
    pub(crate) fn identity(&self) -> String {
        format!("{}:id", self.ns)
    }

    /// What a server is tried with when a client connects.
    pub(crate) fn probe(&self) -> String {
        format!("{}:probe", self.ns)
    }
}

/// Tells the lease item of one place from those of all earlier places of the same claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease(pub(crate) u64);

impl Lease {
    /// Draws one that this claim never had.
    pub(crate) fn fresh() -> Self {
        Self(fastrand::u64(..))
    }
}

/// Which server has a key: the one that bids most for it, so that a server that leaves or comes moves no keys but its
/// own. Every client must name the servers by the same words, in any order.
pub(crate) fn server_of(servers: &[Address], key: &Key) -> usize {
    if let [_] = servers {
        return 0;
    }
    let wanted = hash(key.as_str().as_bytes());
    let bid = |server: &Address| mix(hash(server.to_string().as_bytes()) ^ wanted.rotate_left(32));
    (0..servers.len()).max_by_key(|&at| bid(&servers[at])).unwrap_or(0)
}

/// FNV-1a, then mixed, since its high bits are weak.
fn hash(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// The finisher of splitmix64.
fn mix(mut n: u64) -> u64 {
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn servers(names: &[&str]) -> Vec<Address> {
        names.iter().map(|name| Address::parse(name, 11211).unwrap()).collect()
    }

    fn keys() -> impl Iterator<Item = Key> {
        (0..3000).map(|n| Key::new(format!("orders/{n}")).unwrap())
    }

    #[test]
    fn every_server_has_its_share() {
        let servers = servers(&["a", "b", "c"]);
        let mut count = [0; 3];
        for key in keys() {
            count[server_of(&servers, &key)] += 1;
        }
        assert!(count.iter().all(|share| (900..1100).contains(share)), "{count:?}");
    }

    #[test]
    fn a_server_that_leaves_moves_no_keys_but_its_own_whatever_the_order() {
        let (all, less) = (servers(&["a", "b", "c"]), servers(&["c", "a"]));
        for key in keys() {
            let (before, after) = (&all[server_of(&all, &key)], &less[server_of(&less, &key)]);
            assert!(before == after || before.host == "b", "{key} moved from {before} to {after}");
        }
    }

    /// Clients of two releases must agree.
    #[test]
    fn where_keys_are_never_changes() {
        let servers = servers(&["10.0.0.1", "10.0.0.2", "10.0.0.3:11212"]);
        let at: Vec<_> = keys().take(16).map(|key| server_of(&servers, &key)).collect();
        assert_eq!(at, [0, 1, 1, 1, 1, 2, 2, 2, 1, 0, 2, 2, 1, 1, 1, 2]);
    }

    proptest! {
        #[test]
        fn nothing_can_be_injected(name in "\\PC{1,300}|[\0-\u{20}a/%~:]{1,40}", ns in "[a-z._-]{1,64}") {
            prop_assume!(name.len() <= Key::MAX_BYTES);
            let names = Names::new(&ns);
            let key = Key::new(name).unwrap();
            for item in [names.line(&key), names.lease(ClaimId::fresh(), Lease::fresh())] {
                prop_assert!(item.len() <= LONGEST);
                prop_assert!(item.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.%~:".contains(&c)), "{}", item);
            }
        }
    }
}
