// Package real asks a model that is real: SmolLM2-135M-Instruct behind llama.cpp's own
// server, on loopback. It holds nothing but those tests, which "make real" runs.
package real
