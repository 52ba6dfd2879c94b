// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images decides which pod may use an image that the runtime has, with which
// credentials a pod pulls, and which images are removed when the disk gets full. It touches
// the records of pulls below its folder, and images that are not used; it reads Secrets and
// asks the runtime through interfaces that it declares.
//
// An image that was pulled with the Secret of one tenant is not another's: who does not
// know the same credentials has to pull it again, and the registry decides. Images that
// are there without a pull of this shim are for every pod, and stay so by the names that they
// had when the same content is pulled later. (kubelet pkg/kubelet/images/pullmanager, policy
// NeverVerifyPreloadedImages)
//
//	   pull begins            pull ends                    image is gone
//	─────────────> intent ──────────────────> record ───────────────────> nothing
//	                 │   with what it presented │
//	                 │ this process or the      │
//	                 │ call was cut off         ▼
//	                 └──> another image than before, within a minute: a record without
//	                      credentials
//
// Records hold hashes of credentials, no credentials. What cannot be read or written of
// them never keeps the shim from running: in doubt a pod has to pull again, and nothing is
// pulled before that is on the disk.
//
// Credentials are matched as the kubelet does it. go-containerregistry's keychain of pull
// secrets returns only the first of several candidates, does not say which Secret it is
// from, and would bring Docker's configuration and credential helpers into the shim.
package images
