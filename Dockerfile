# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0

# The tag is an exact version, not a digest. Of this image nothing but what its Go toolchain
# compiles gets into the program, which is static. The SBOM of the result lists the Go modules
# that the program was linked from.
FROM --platform=$BUILDPLATFORM golang:1.26.8 AS build
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=devel
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY main.go ./
COPY api ./api
COPY controllers ./controllers
COPY internal ./internal
COPY runtime ./runtime
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /managedworkload .

# One static program and nothing else. The manager needs no rights; the shim's
# manifest says for itself that it runs as root.
FROM scratch
ARG VERSION=devel
LABEL org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.source=https://github.com/managedworkload/managedworkload
COPY --from=build /managedworkload /managedworkload
USER 65532:65532
ENTRYPOINT ["/managedworkload"]
