# Two stages: a static binary, then nothing but it. The images can be replaced,
# e.g. by a mirror's: --build-arg GO_IMAGE=…
ARG GO_IMAGE=golang:1.26

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd ./cmd
COPY internal ./internal
# .git stays outside: --build-arg COMMIT=$(git rev-parse HEAD) says what this is.
ARG VERSION=dev
ARG COMMIT=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION} -X main.revision=${COMMIT}" -o /out/poold ./cmd/poold
# Root certificates, for calls to the solving service over TLS.
RUN mkdir -p /out/certs /out/data && cp /etc/ssl/certs/ca-certificates.crt /out/certs/

FROM scratch
COPY --from=build /out/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/poold /poold
COPY pools.yaml /etc/poold/pools.yaml
# Where ./dead-letters is, unless the file says otherwise.
COPY --from=build --chown=65532:65532 /out/data /var/lib/poold
WORKDIR /var/lib/poold
VOLUME /var/lib/poold
ENV POOLD_CONFIG=/etc/poold/pools.yaml \
    POOLD_LISTEN=0.0.0.0:8080
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s CMD ["/poold", "healthcheck"]
ENTRYPOINT ["/poold"]
