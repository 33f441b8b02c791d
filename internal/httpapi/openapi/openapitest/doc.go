// Package openapitest checks HTTP responses of poold against the description in package openapi.
//
//	load.go       reads the description and compiles its schemas
//	check.go      checks one exchange
//	transport.go  checks the exchanges of a client while a test runs
//
// # Invariants
//
//   - Only servers that a test has named are checked, because tests also call other services.
//   - Of a body that is not JSON, a check reads no byte that the test does not read.
//   - An exchange is never reported to a test that has ended.
package openapitest
