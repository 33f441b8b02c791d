// Package openapi contains the description of poold's HTTP API in OpenAPI 3.1: every route, every
// status of its responses, and every code of a problem. poold serves the description at
// /openapi.yaml, but there the lists of members, codes, kinds and sources are open, because a later
// version may add some.
//
// The description is written by hand. Package openapitest checks the responses of the servers that
// the tests of packages httpapi and main and package daemontest start. A response that the
// description lacks fails its test:
//
//   - Each path and method of the table of routes has an operation, and the reverse.
//   - Each status of an operation has a response, which lists the media types and the codes.
//   - The schemas of JSON allow no further fields. Schemas that others extend allow them, and
//     the extending schemas have `unevaluatedProperties: false`.
package openapi
