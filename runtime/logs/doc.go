// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs decides when the log of a container is rotated, which rotated files are
// compressed and which are removed, and under which names log collectors find the logs. It
// touches the files beside the logs that the runtime names, and links in one directory that
// point below the directory of the logs. It asks the runtime to open logs again through an
// interface that it declares. (kubelet pkg/kubelet/logs/container_log_manager.go)
//
//	0.log ──rename──> 0.log.<time> ──a round later, if it is not the newest──> 0.log.<time>.gz
//	  ^                                  (through 0.log.<time>.gz.tmp)              │
//	  │ the runtime opens 0.log again                                              ▼
//	  └── a failure renames back                              removed: too many files or bytes
//
// All logs are looked at every 10 s. A log that grows is looked at more often, the faster it
// grows, up to ten times a second; inotify says when a log that is quiet begins to grow, so
// that quiet logs cost nothing between two rounds.
package logs
