// Package crash lets a test kill the process at a named point of its work, as SIGKILL from
// outside does, only exactly there. Only a build with the tag crashpoints can: in any other
// At does nothing.
//
//	POOLD_TEST_CRASH=POINT    at the first pass of the point
//	POOLD_TEST_CRASH=POINT:N  at the N-th pass
//
// Which points there are the packages say that pass them: purchase and compat.
package crash
