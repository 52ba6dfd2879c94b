// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects knows the ConfigMaps and Secrets that NodeWorkloads refer to. It decides
// which of them a node gets: what NodeWorkloads of that node refer to, and nothing else. Each
// is watched once for the whole fleet while a node that needs it is connected, and held once.
// The manager may read what namespaces let it read; where it may not, the package says which
// command gives the right. It reads ConfigMaps and Secrets, and writes nothing.
//
// Who a caller is, and for which node it speaks, is decided before the Hub is asked.
package objects
