// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock reads the node's two clocks: the wall clock, which people and
// other machines know and which may be set, and the time since boot, which only
// moves forward, also while the node is suspended.
//
//   - A time that is stored or published, or compared with one that was, comes
//     from Now.
//   - What is left of a duration that outlives the process is counted with
//     SinceBoot, stored beside BootID: with another boot ID it means nothing.
//   - A duration within the process is counted with the standard library (time.Now
//     and time.Since, timers): those readings carry Go's monotonic clock, and Now
//     does not.
//
// A nil *Clock works: it reads the machine's wall clock, counts SinceBoot from the
// process's start with Go's monotonic clock, and has no boot ID. Both follow the
// fake time of testing/synctest.
package clock
