//! [`Trie`]: values by byte strings, found by all prefixes of a text in one walk.

/// A radix trie in an arena: an edge carries as many bytes as it can, so a topic costs a node or two however long it is,
/// and a search goes once over the text however many topics there are.
///
/// Nothing here recurses: libzmq's trie overflowed the stack with a long topic (zmtp.md pitfall 22).
#[derive(Debug)]
pub(crate) struct Trie<V> {
    nodes: Vec<Node<V>>,
    free: Vec<NodeId>,
}

/// A place in a [`Trie`]; that of a value stays the same until the value is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(u32);

const ROOT: NodeId = NodeId(0);

#[derive(Debug)]
struct Node<V> {
    /// The bytes on the edge that leads here; empty for the root only.
    label: Box<[u8]>,
    parent: NodeId,
    /// By the first byte of their label, in order.
    children: Vec<(u8, NodeId)>,
    value: Option<V>,
}

impl<V> Node<V> {
    fn new(label: &[u8], parent: NodeId) -> Self {
        Self { label: label.into(), parent, children: Vec::new(), value: None }
    }

    fn child(&self, first: u8) -> Result<usize, usize> {
        self.children.binary_search_by_key(&first, |(byte, _)| *byte)
    }
}

impl<V> Default for Trie<V> {
    fn default() -> Self {
        Self { nodes: vec![Node::new(b"", ROOT)], free: Vec::new() }
    }
}

impl<V: Default> Trie<V> {
    /// The value of a topic, made if there is none.
    pub(crate) fn entry(&mut self, topic: &[u8]) -> (NodeId, &mut V) {
        let (mut at, mut rest) = (ROOT, topic);
        while let Some(&first) = rest.first() {
            at = match self.node(at).child(first) {
                Err(index) => {
                    let leaf = self.alloc(Node::new(rest, at));
                    self.node_mut(at).children.insert(index, (first, leaf));
                    rest = b"";
                    leaf
                }
                Ok(index) => {
                    let child = self.node(at).children[index].1;
                    let common = common_prefix(&self.node(child).label, rest);
                    rest = &rest[common..];
                    if common < self.node(child).label.len() { self.split(child, common) } else { child }
                }
            };
        }
        (at, self.node_mut(at).value.get_or_insert_default())
    }
}

impl<V> Trie<V> {
    /// Where the value of a topic is.
    pub(crate) fn find(&self, topic: &[u8]) -> Option<NodeId> {
        let (mut at, mut rest) = (ROOT, topic);
        while !rest.is_empty() {
            (at, rest) = self.step(at, rest)?;
        }
        self.node(at).value.as_ref().map(|_| at)
    }

    pub(crate) fn value(&self, at: NodeId) -> Option<&V> {
        self.node(at).value.as_ref()
    }

    pub(crate) fn value_mut(&mut self, at: NodeId) -> Option<&mut V> {
        self.node_mut(at).value.as_mut()
    }

    /// Takes a value out, and the nodes that were there for its sake.
    pub(crate) fn remove(&mut self, at: NodeId) -> Option<V> {
        let value = self.node_mut(at).value.take();
        let mut at = at;
        while at != ROOT && self.node(at).value.is_none() {
            let node = self.node(at);
            let (parent, first) = (node.parent, node.label.first().copied().unwrap_or_default());
            match node.children[..] {
                [] => {
                    if let Ok(index) = self.node(parent).child(first) {
                        self.node_mut(parent).children.remove(index);
                    }
                    self.release(at);
                    at = parent;
                }
                [(_, only)] => {
                    let label = [&self.node(at).label[..], &self.node(only).label[..]].concat();
                    let child = self.node_mut(only);
                    (child.label, child.parent) = (label.into(), parent);
                    if let Ok(index) = self.node(parent).child(first) {
                        self.node_mut(parent).children[index].1 = only;
                    }
                    self.release(at);
                    break;
                }
                _ => break,
            }
        }
        value
    }

    /// The values of all topics that `text` begins with, the shortest first.
    pub(crate) fn prefixes<'a>(&'a self, text: &'a [u8]) -> Prefixes<'a, V> {
        Prefixes { trie: self, next: Some((ROOT, text)) }
    }

    /// The topic a value belongs to.
    pub(crate) fn topic(&self, mut at: NodeId) -> Vec<u8> {
        let mut labels = Vec::new();
        while at != ROOT {
            let node = self.node(at);
            labels.push(&node.label[..]);
            at = node.parent;
        }
        labels.reverse();
        labels.concat()
    }

    /// Calls `visit` with every topic, in byte order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8])) {
        let (mut topic, mut open) = (Vec::new(), vec![(ROOT, 0)]);
        while let Some((at, depth)) = open.pop() {
            let node = self.node(at);
            topic.truncate(depth);
            topic.extend_from_slice(&node.label);
            if node.value.is_some() {
                visit(&topic);
            }
            open.extend(node.children.iter().rev().map(|(_, child)| (*child, topic.len())));
        }
    }

    /// One edge on, if the text has all of its bytes.
    fn step<'t>(&self, at: NodeId, text: &'t [u8]) -> Option<(NodeId, &'t [u8])> {
        let node = self.node(at);
        let index = node.child(*text.first()?).ok()?;
        let child = node.children[index].1;
        Some((child, text.strip_prefix(&*self.node(child).label)?))
    }

    /// Puts a node `count` bytes up the edge to `below`, which keeps its place.
    fn split(&mut self, below: NodeId, count: usize) -> NodeId {
        let parent = self.node(below).parent;
        let (upper, lower) = self.node(below).label.split_at(count);
        let (first, next, lower) = (upper[0], lower[0], lower.into());
        let middle = Node { children: vec![(next, below)], ..Node::new(upper, parent) };
        let middle = self.alloc(middle);
        let child = self.node_mut(below);
        (child.label, child.parent) = (lower, middle);
        if let Ok(index) = self.node(parent).child(first) {
            self.node_mut(parent).children[index].1 = middle;
        }
        middle
    }

    fn node(&self, at: NodeId) -> &Node<V> {
        &self.nodes[at.0 as usize]
    }

    fn node_mut(&mut self, at: NodeId) -> &mut Node<V> {
        &mut self.nodes[at.0 as usize]
    }

    fn alloc(&mut self, node: Node<V>) -> NodeId {
        match self.free.pop() {
            Some(at) => {
                *self.node_mut(at) = node;
                at
            }
            None => {
                self.nodes.push(node);
                NodeId((self.nodes.len() - 1) as u32)
            }
        }
    }

    fn release(&mut self, at: NodeId) {
        *self.node_mut(at) = Node::new(b"", ROOT);
        self.free.push(at);
        if self.free.len() + 1 == self.nodes.len() {
            // Nothing is left: neither is what was there for a burst.
            self.nodes.truncate(1);
            self.nodes.shrink_to_fit();
            self.free = Vec::new();
        }
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// See [`Trie::prefixes`].
pub(crate) struct Prefixes<'a, V> {
    trie: &'a Trie<V>,
    next: Option<(NodeId, &'a [u8])>,
}

impl<'a, V> Iterator for Prefixes<'a, V> {
    type Item = &'a V;

    fn next(&mut self) -> Option<&'a V> {
        loop {
            let (at, rest) = self.next?;
            self.next = self.trie.step(at, rest);
            if let Some(value) = &self.trie.node(at).value {
                return Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Short strings over few letters share prefixes; the others are long.
    fn topic() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            8 => proptest::collection::vec(0..3u8, 0..6),
            1 => (0..3u8, 0..300usize).prop_map(|(byte, len)| vec![byte; len]),
        ]
    }

    proptest! {
        /// Whatever is added and removed, it is what a sorted map with a look at every entry says.
        #[test]
        fn as_a_naive_model(
            steps in proptest::collection::vec((any::<bool>(), topic()), 0..60),
            text in topic(),
        ) {
            let mut trie = Trie::<usize>::default();
            let mut model = BTreeMap::new();
            let mut places = BTreeMap::new();
            for (i, (add, topic)) in steps.into_iter().enumerate() {
                if add {
                    let (at, value) = trie.entry(&topic);
                    *value = i;
                    model.insert(topic.clone(), i);
                    prop_assert_eq!(*places.entry(topic).or_insert(at), at, "a value does not move");
                } else {
                    let found = trie.find(&topic);
                    prop_assert_eq!(found, places.remove(&topic));
                    prop_assert_eq!(found.and_then(|at| trie.remove(at)), model.remove(&topic));
                }
                let mut topics = Vec::new();
                trie.for_each(|topic| topics.push(topic.to_vec()));
                prop_assert!(topics.iter().eq(model.keys()));
                for (topic, at) in &places {
                    prop_assert_eq!(&trie.topic(*at), topic);
                }
            }
            let matching: Vec<usize> = trie.prefixes(&text).copied().collect();
            let mut expected: Vec<_> = model.iter().filter(|(topic, _)| text.starts_with(topic)).collect();
            expected.sort_by_key(|(topic, _)| topic.len());
            prop_assert!(matching.iter().eq(expected.into_iter().map(|(_, value)| value)));
            for topic in model.into_keys() {
                let at = trie.find(&topic).unwrap();
                trie.remove(at);
            }
            prop_assert_eq!(trie.nodes.len(), 1, "no node is left behind");
        }
    }

    /// Pitfall 22: neither a long topic nor a deep trie costs stack.
    #[test]
    fn pitfall_22_long_topics_and_deep_tries() {
        let mut trie = Trie::<()>::default();
        let topic = vec![b'x'; 65_536];
        let lens = || (0..=topic.len()).step_by(32);
        for len in lens() {
            trie.entry(&topic[..len]);
        }
        assert_eq!(trie.prefixes(&topic).count(), lens().count());
        let (mut count, mut last) = (0, 0);
        trie.for_each(|topic| (count, last) = (count + 1, topic.len()));
        assert_eq!((count, last), (lens().count(), topic.len()));
        for len in lens() {
            let at = trie.find(&topic[..len]).unwrap();
            assert!(trie.remove(at).is_some());
        }
        assert_eq!(trie.nodes.len(), 1);
    }
}
