// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// reaction is how far apart the times until the first sign of a termination may
// be: either agent may be busy with something else.
const reaction = 900 * time.Millisecond

// moment is something in a kill that has a time.
type moment struct {
	what string
	at   time.Time
}

// compareTimes compares the kills: of each instance of a container, from the
// first sign of its kill on, and of the whole termination, from the deletion on.
func compareTimes(kubelet, shim *record) []difference {
	return slices.Concat(
		compareOffsets("time in ", tolerance, instanceMoments(kubelet), instanceMoments(shim)),
		compareOffsets("time of ", tolerance, terminationMoments(kubelet), terminationMoments(shim)),
		compareOffsets("time of ", reaction, reactions(kubelet), reactions(shim)),
	)
}

// compareOffsets compares how long after the first moment each of the others is.
func compareOffsets(aspect string, tolerance time.Duration, kubelet, shim map[string][]moment) []difference {
	var all []difference
	for _, key := range slices.Sorted(maps.Keys(kubelet)) {
		k, s := offsets(kubelet[key]), offsets(shim[key])
		for _, what := range slices.Sorted(maps.Keys(k)) {
			other, both := s[what]
			if both && (k[what]-other).Abs() > tolerance {
				all = append(all, difference{
					aspect: aspect + key + ": " + what, timed: true,
					kubelet: seconds(k[what]), shim: seconds(other),
					seconds: [2]float64{k[what].Seconds(), other.Seconds()},
				})
			}
		}
	}
	return all
}

func offsets(moments []moment) map[string]time.Duration {
	result := map[string]time.Duration{}
	for _, m := range moments {
		if _, twice := result[m.what]; !twice {
			result[m.what] = m.at.Sub(moments[0].at)
		}
	}
	return result
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// isKill reports whether a line of a journal belongs to a kill.
func isKill(text string) bool {
	return strings.HasPrefix(text, "preStop") || strings.HasPrefix(text, "signal ") ||
		strings.HasPrefix(text, "http GET /preStop")
}

// instanceMoments are the kills of every instance: hook, signals and the end.
func instanceMoments(r *record) map[string][]moment {
	all := map[string][]moment{}
	for name, entries := range r.journals {
		for _, l := range r.lives {
			if l.container != name || l.ended.IsZero() {
				continue
			}
			var moments []moment
			for _, e := range entries {
				if isKill(e.text) && !e.at.Before(l.started) && !e.at.After(l.ended) {
					moments = append(moments, moment{r.plain(e.text), e.at})
				}
			}
			if len(moments) > 0 {
				all[fmt.Sprintf("%s#%d", name, l.attempt)] = append(moments, moment{"exit", l.ended})
			}
		}
	}
	return all
}

// terminationMoments are everything that happens once the node's agent was asked
// to end the workload, from its first sign on.
func terminationMoments(r *record) map[string][]moment {
	moments := afterDeletion(r)
	if len(moments) == 0 {
		return nil
	}
	return map[string][]moment{"termination": moments}
}

const firstSign = "first sign"

// reactions are how long the agent took to the first sign of the termination. A
// sleep hook leaves no other trace.
func reactions(r *record) map[string][]moment {
	moments := afterDeletion(r)
	if len(moments) == 0 {
		return nil
	}
	// The agent may have seen the request before this program did.
	request := r.deleted
	if moments[0].at.Before(request) {
		request = moments[0].at
	}
	return map[string][]moment{"termination": {{"request", request}, {firstSign, moments[0].at}}}
}

func afterDeletion(r *record) []moment {
	var moments []moment
	for name, entries := range r.journals {
		for _, e := range entries {
			if isKill(e.text) && e.at.After(r.asked) {
				moments = append(moments, moment{name + " " + r.plain(e.text), e.at})
			}
		}
	}
	for _, l := range r.lives {
		if l.ended.After(r.asked) {
			moments = append(moments, moment{l.container + " exit", l.ended})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	return moments
}
