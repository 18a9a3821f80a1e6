// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// func mulAddAVX2(dst, x, w *float32, n, stride int)
TEXT ·mulAddAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ w+16(FP), BX
	MOVQ n+24(FP), CX
	MOVQ stride+32(FP), DX
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3

mulAddLoop:
	VBROADCASTSS (SI), Y4
	VMULPS (BX), Y4, Y5
	VMULPS 32(BX), Y4, Y6
	VMULPS 64(BX), Y4, Y7
	VMULPS 96(BX), Y4, Y8
	VADDPS Y5, Y0, Y0
	VADDPS Y6, Y1, Y1
	VADDPS Y7, Y2, Y2
	VADDPS Y8, Y3, Y3
	ADDQ $4, SI
	ADDQ DX, BX
	DECQ CX
	JNZ mulAddLoop
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VZEROUPPER
	RET

// func mulAddPairAVX2(dst, x, w *float32, n, stride int)
TEXT ·mulAddPairAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ w+16(FP), BX
	MOVQ n+24(FP), CX
	MOVQ stride+32(FP), DX
	LEAQ (SI)(CX*4), R8
	LEAQ (DI)(DX*1), R9
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS (R9), Y4
	VMOVUPS 32(R9), Y5
	VMOVUPS 64(R9), Y6
	VMOVUPS 96(R9), Y7

mulAddPairLoop:
	VBROADCASTSS (SI), Y8
	VBROADCASTSS (R8), Y9
	VMOVUPS (BX), Y10
	VMULPS Y10, Y8, Y11
	VMULPS Y10, Y9, Y10
	VADDPS Y11, Y0, Y0
	VADDPS Y10, Y4, Y4
	VMOVUPS 32(BX), Y12
	VMULPS Y12, Y8, Y13
	VMULPS Y12, Y9, Y12
	VADDPS Y13, Y1, Y1
	VADDPS Y12, Y5, Y5
	VMOVUPS 64(BX), Y10
	VMULPS Y10, Y8, Y11
	VMULPS Y10, Y9, Y10
	VADDPS Y11, Y2, Y2
	VADDPS Y10, Y6, Y6
	VMOVUPS 96(BX), Y12
	VMULPS Y12, Y8, Y13
	VMULPS Y12, Y9, Y12
	VADDPS Y13, Y3, Y3
	VADDPS Y12, Y7, Y7
	ADDQ $4, SI
	ADDQ $4, R8
	ADDQ DX, BX
	DECQ CX
	JNZ mulAddPairLoop
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, (R9)
	VMOVUPS Y5, 32(R9)
	VMOVUPS Y6, 64(R9)
	VMOVUPS Y7, 96(R9)
	VZEROUPPER
	RET

// func outerAVX2(w, x, d *float32, n, stride int)
TEXT ·outerAVX2(SB), NOSPLIT, $0-40
	MOVQ w+0(FP), BX
	MOVQ x+8(FP), SI
	MOVQ d+16(FP), DI
	MOVQ n+24(FP), CX
	MOVQ stride+32(FP), DX
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3

outerLoop:
	VBROADCASTSS (SI), Y4
	VMULPS Y0, Y4, Y5
	VMULPS Y1, Y4, Y6
	VMULPS Y2, Y4, Y7
	VMULPS Y3, Y4, Y8
	VADDPS (BX), Y5, Y5
	VADDPS 32(BX), Y6, Y6
	VADDPS 64(BX), Y7, Y7
	VADDPS 96(BX), Y8, Y8
	VMOVUPS Y5, (BX)
	VMOVUPS Y6, 32(BX)
	VMOVUPS Y7, 64(BX)
	VMOVUPS Y8, 96(BX)
	ADDQ $4, SI
	ADDQ DX, BX
	DECQ CX
	JNZ outerLoop
	VZEROUPPER
	RET

DATA half<>+0(SB)/4, $0x3f000000
GLOBL half<>(SB), RODATA, $4
DATA one<>+0(SB)/4, $0x3f800000
GLOBL one<>(SB), RODATA, $4
DATA magnitude<>+0(SB)/4, $0x7fffffff
GLOBL magnitude<>(SB), RODATA, $4

// func gatedAVX2(out, in, value, gate *float32, blocks int)
TEXT ·gatedAVX2(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ value+16(FP), BX
	MOVQ gate+24(FP), DX
	MOVQ blocks+32(FP), CX
	VBROADCASTSS half<>(SB), Y13
	VBROADCASTSS one<>(SB), Y14
	VBROADCASTSS magnitude<>(SB), Y15

gatedLoop:
	VMOVUPS (DX), Y0
	VANDPS Y15, Y0, Y1
	VADDPS Y14, Y1, Y1
	VDIVPS Y1, Y0, Y0
	VMULPS Y13, Y0, Y0
	VADDPS Y13, Y0, Y0
	VMULPS (BX), Y0, Y0
	VADDPS (SI), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	ADDQ $32, SI
	ADDQ $32, BX
	ADDQ $32, DX
	DECQ CX
	JNZ gatedLoop
	VZEROUPPER
	RET

// func addRowsAVX2(sums *int32, table *int8, rows *uint16, n int)
TEXT ·addRowsAVX2(SB), NOSPLIT, $0-32
	MOVQ sums+0(FP), DI
	MOVQ table+8(FP), SI
	MOVQ rows+16(FP), BX
	MOVQ n+24(FP), CX
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3

addRowsLoop:
	MOVWLZX (BX), AX
	SHLQ $5, AX
	VPMOVSXBD (SI)(AX*1), Y4
	VPMOVSXBD 8(SI)(AX*1), Y5
	VPMOVSXBD 16(SI)(AX*1), Y6
	VPMOVSXBD 24(SI)(AX*1), Y7
	VPADDD Y4, Y0, Y0
	VPADDD Y5, Y1, Y1
	VPADDD Y6, Y2, Y2
	VPADDD Y7, Y3, Y3
	ADDQ $2, BX
	DECQ CX
	JNZ addRowsLoop
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	VZEROUPPER
	RET

// func addHashedAVX2(sums *uint16, table, hashes *uint64, n int, shift uint)
TEXT ·addHashedAVX2(SB), NOSPLIT, $0-40
	MOVQ sums+0(FP), DI
	MOVQ table+8(FP), SI
	MOVQ hashes+16(FP), BX
	MOVQ n+24(FP), DX
	MOVQ shift+32(FP), CX
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2

addHashedLoop:
	MOVQ (BX), AX
	SHRQ CX, AX
	LEAQ (AX)(AX*2), AX
	SHLQ $4, AX
	VPMOVZXBW (SI)(AX*1), Y3
	VPMOVZXBW 16(SI)(AX*1), Y4
	VPMOVZXBW 32(SI)(AX*1), Y5
	VPADDW Y3, Y0, Y0
	VPADDW Y4, Y1, Y1
	VPADDW Y5, Y2, Y2
	ADDQ $8, BX
	DECQ DX
	JNZ addHashedLoop
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VZEROUPPER
	RET

// func maxRowsAVX2(maxima, rows *float32, n int)
TEXT ·maxRowsAVX2(SB), NOSPLIT, $0-24
	MOVQ maxima+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ n+16(FP), CX
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3

	// Of two zeros the instruction takes its second source, the first operand here: the old maximum.
maxRowsLoop:
	VMOVUPS (SI), Y4
	VMOVUPS 32(SI), Y5
	VMOVUPS 64(SI), Y6
	VMOVUPS 96(SI), Y7
	VMAXPS Y0, Y4, Y0
	VMAXPS Y1, Y5, Y1
	VMAXPS Y2, Y6, Y2
	VMAXPS Y3, Y7, Y3
	ADDQ $128, SI
	DECQ CX
	JNZ maxRowsLoop
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VZEROUPPER
	RET

// func prefixSumsAVX2(sums *Sums, own *[Lanes]int16, table *uint64, found *uint32, ends *int32, n int)
TEXT ·prefixSumsAVX2(SB), NOSPLIT, $0-48
	MOVQ sums+0(FP), DI
	MOVQ own+8(FP), R8
	MOVQ table+16(FP), SI
	MOVQ found+24(FP), BX
	MOVQ ends+32(FP), DX
	MOVQ n+40(FP), CX
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	XORQ R9, R9

prefixLoop:
	MOVLQZX (DX), R10
	MOVQ R10, R11
	SUBQ R9, R11
	VPXOR Y2, Y2, Y2
	JZ prefixAdd

	SHLL $7, R11
	VMOVD R11, X3
	VPBROADCASTD X3, Y3
	VPSUBD Y3, Y0, Y0
	VPSUBD Y3, Y1, Y1

prefixRow:
	MOVLQZX (BX)(R9*4), AX
	VPMOVZXBW (SI)(AX*8), Y4
	VPADDW Y4, Y2, Y2
	INCQ R9
	CMPQ R9, R10
	JNE prefixRow

prefixAdd:
	VPMOVZXWD X2, Y5
	VEXTRACTI128 $1, Y2, X2
	VPMOVZXWD X2, Y6
	VPMOVSXWD (R8), Y7
	VPMOVSXWD 16(R8), Y8
	VPADDD Y5, Y0, Y0
	VPADDD Y6, Y1, Y1
	VPADDD Y7, Y0, Y0
	VPADDD Y8, Y1, Y1
	ADDQ $64, DI
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ $32, R8
	ADDQ $4, DX
	DECQ CX
	JNZ prefixLoop
	VZEROUPPER
	RET

// func prefetch(table unsafe.Pointer, at *uint32, n, size int)
TEXT ·prefetch(SB), NOSPLIT, $0-32
	MOVQ table+0(FP), DI
	MOVQ at+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ size+24(FP), DX
	TESTQ CX, CX
	JZ prefetchDone

prefetchLoop:
	MOVLQZX (SI), AX
	IMULQ DX, AX
	PREFETCHT0 (DI)(AX*1)
	ADDQ $4, SI
	DECQ CX
	JNZ prefetchLoop

prefetchDone:
	RET

// func prefetchMasked(table unsafe.Pointer, hashes *uint64, n, mask int)
TEXT ·prefetchMasked(SB), NOSPLIT, $0-32
	MOVQ table+0(FP), DI
	MOVQ hashes+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ mask+24(FP), DX
	TESTQ CX, CX
	JZ prefetchMaskedDone

prefetchMaskedLoop:
	MOVQ (SI), AX
	ANDQ DX, AX
	PREFETCHT0 (DI)(AX*8)
	ADDQ $8, SI
	DECQ CX
	JNZ prefetchMaskedLoop

prefetchMaskedDone:
	RET
