// Package real tests against a real model: SmolLM2-135M-Instruct on llama.cpp's own server, on
// the loopback interface. It contains only these tests, which "make real" runs.
package real
