// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shutdown ends the workloads of a node that shuts down, as the kubelet's graceful node
// shutdown does. It decides when: logind says that the node shuts down, and waits for the holder
// of an inhibitor lock. runtime/plan decides in which order, and with which grace periods.
//
//	Run: connect, again after a second whenever the connection is lost
//	  |
//	  |  InhibitDelayMaxSec raised where it is lower
//	  v
//	lock taken <-----------------------------------------------+
//	  |                                                        |
//	  |  PrepareForShutdown(true), or it was already so        |
//	  v                                                        |
//	new workloads refused; group by group: ended, waited for   |
//	  |                     |                                  |
//	  |  all groups ended   |  PrepareForShutdown(false)       |
//	  v                     v                                  |
//	lock released           no further group is ended ---------+
//
// Only logind's own word ends anything: a connection that is lost, a bus that is restarted and a
// signal of another sender do not.
//
// It may touch the bus, and one file among logind's configuration of the node. Workloads are ended
// through an interface.
package shutdown
