// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

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
