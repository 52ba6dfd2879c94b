// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import "sync"

// tokensOfNode is how many requests for tokens of a node are answered at the same time.
const tokensOfNode = 4

// bounds keeps one node from taking up what all share.
type bounds struct {
	mu     sync.Mutex
	tokens map[string]int
}

func newBounds() *bounds { return &bounds{tokens: map[string]int{}} }

// token reports whether a request for a token may be answered now, until done is called.
func (b *bounds) token(node string) (done func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens[node] >= tokensOfNode {
		return nil, false
	}
	b.tokens[node]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.tokens[node]--; b.tokens[node] == 0 {
			delete(b.tokens, node)
		}
	}, true
}
