// Package daemontest runs the poold binary and the simulated solving service as processes, for tests
// of what an operator deploys. A test package calls Main from its TestMain.
package daemontest
