#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_NV_integer_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 128) in;
layout(std430, set = 0, binding = 0) readonly buffer Buffer0w4 { uvec4 x0_w4[]; };
layout(std430, set = 0, binding = 1) readonly buffer Buffer1w4 { uvec4 x1_w4[]; };
layout(std430, set = 0, binding = 2) buffer Buffer2w2 { uvec2 y0_w2[]; };
layout(push_constant) uniform Numbers { int numbers[25]; };
layout(constant_id = 100) const uint left_rows = 16;
layout(constant_id = 101) const uint right_rows = 16;
layout(constant_id = 102) const uint total_rows = 16;
shared uvec4 b_left_slab0[288];
shared uvec4 b_right_slab0[320];
shared float b_results0[1280];
uint oi_f16_from_f32(float x)
{
    uint bits = floatBitsToUint(x);
    uint size = bits & 0x7fffffffu;
    uint sign = bits >> 16 & 0x8000u;
    uint normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
    precise float sum = uintBitsToFloat(size) + 0.5;
    uint finite = size < 0x38800000u ? floatBitsToUint(sum) - floatBitsToUint(0.5) : normal;
    uint large = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return sign | (size >= 0x477ff000u ? large : finite);
}
void main() {
    int n0 = numbers[0];
    int n1 = numbers[1];
    int n2 = numbers[2];
    int n3 = numbers[3];
    int n4 = numbers[4];
    int n5 = numbers[5];
    int n6 = numbers[6];
    int n7 = numbers[7];
    int n8 = numbers[8];
    int n9 = numbers[9];
    int n10 = numbers[10];
    int n11 = numbers[11];
    int n12 = numbers[12];
    int n13 = numbers[13];
    int n14 = numbers[14];
    int n15 = numbers[15];
    int n16 = numbers[16];
    int n17 = numbers[17];
    int n18 = numbers[18];
    int n19 = numbers[19];
    int n20 = numbers[20];
    int n21 = numbers[21];
    int n22 = numbers[22];
    int n23 = numbers[23];
    int n24 = numbers[24];
    int thread = int(gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID);
    uint place = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (place >= uint(n0)) { return; }
    int i_row_tile0 = int(place % uint(n1));
    place /= uint(n1);
    int i_column_tile0 = int(place);
    {
        int i_down0 = thread / 64;
        int i_across0 = thread / 32 % 2;
        int i_lane2 = thread / 8 % 4;
        int i_lane1 = thread / 4 % 2;
        int i_lane0 = thread % 4;
        uvec4 b_left_ahead0[2];
        uvec4 b_right_ahead0[2];
        fcoopmatNV<16, gl_ScopeSubgroup, left_rows, 16> b_left_tiles0[1];
        fcoopmatNV<16, gl_ScopeSubgroup, right_rows, 16> b_right_tiles0[1];
        fcoopmatNV<32, gl_ScopeSubgroup, total_rows, 16> b_totals0[1];
        b_totals0[0] = fcoopmatNV<32, gl_ScopeSubgroup, total_rows, 16>(0.0);
        uvec4 w0 = x0_w4[n2 * i_across0 + n3 * i_down0 + i_lane0 + n4 * i_lane1 + n5 * i_lane2 + n6 * i_row_tile0];
        b_left_ahead0[0] = w0;
        uvec4 w1 = x0_w4[n2 * i_across0 + n3 * i_down0 + i_lane0 + n4 * i_lane1 + n5 * i_lane2 + n6 * i_row_tile0 + n7];
        b_left_ahead0[1] = w1;
        uvec4 w2 = x1_w4[n8 * i_across0 + n9 * i_column_tile0 + n10 * i_down0 + i_lane0 + n11 * i_lane1 + n12 * i_lane2];
        b_right_ahead0[0] = w2;
        uvec4 w3 = x1_w4[n8 * i_across0 + n9 * i_column_tile0 + n10 * i_down0 + i_lane0 + n11 * i_lane1 + n12 * i_lane2 + n13];
        b_right_ahead0[1] = w3;
        b_left_slab0[36 * i_across0 + 72 * i_down0 + i_lane0 + 4 * i_lane1 + 9 * i_lane2] = b_left_ahead0[0];
        b_left_slab0[36 * i_across0 + 72 * i_down0 + i_lane0 + 4 * i_lane1 + 9 * i_lane2 + 144] = b_left_ahead0[1];
        b_right_slab0[40 * i_across0 + 80 * i_down0 + i_lane0 + 20 * i_lane1 + 5 * i_lane2] = b_right_ahead0[0];
        b_right_slab0[40 * i_across0 + 80 * i_down0 + i_lane0 + 20 * i_lane1 + 5 * i_lane2 + 160] = b_right_ahead0[1];
        barrier();
        uvec4 w4 = x0_w4[n2 * i_across0 + n3 * i_down0 + i_lane0 + n4 * i_lane1 + n5 * i_lane2 + n6 * i_row_tile0 + n14];
        b_left_ahead0[0] = w4;
        uvec4 w5 = x0_w4[n2 * i_across0 + n3 * i_down0 + i_lane0 + n4 * i_lane1 + n5 * i_lane2 + n6 * i_row_tile0 + n15];
        b_left_ahead0[1] = w5;
        uvec4 w6 = x1_w4[n8 * i_across0 + n9 * i_column_tile0 + n10 * i_down0 + i_lane0 + n11 * i_lane1 + n12 * i_lane2 + n16];
        b_right_ahead0[0] = w6;
        uvec4 w7 = x1_w4[n8 * i_across0 + n9 * i_column_tile0 + n10 * i_down0 + i_lane0 + n11 * i_lane1 + n12 * i_lane2 + n17];
        b_right_ahead0[1] = w7;
        [[unroll]] for (int i_part0 = 0; i_part0 < 4; ++i_part0) {
            coopMatLoadNV(b_left_tiles0[0], b_left_slab0, 144 * i_down0 + 2 * i_part0, 9, false);
            coopMatLoadNV(b_right_tiles0[0], b_right_slab0, 2 * i_across0 + 80 * i_part0, 5, false);
            b_totals0[0] = coopMatMulAddNV(b_left_tiles0[0], b_right_tiles0[0], b_totals0[0]);
        }
        barrier();
        b_left_slab0[36 * i_across0 + 72 * i_down0 + i_lane0 + 4 * i_lane1 + 9 * i_lane2] = b_left_ahead0[0];
        b_left_slab0[36 * i_across0 + 72 * i_down0 + i_lane0 + 4 * i_lane1 + 9 * i_lane2 + 144] = b_left_ahead0[1];
        b_right_slab0[40 * i_across0 + 80 * i_down0 + i_lane0 + 20 * i_lane1 + 5 * i_lane2] = b_right_ahead0[0];
        b_right_slab0[40 * i_across0 + 80 * i_down0 + i_lane0 + 20 * i_lane1 + 5 * i_lane2 + 160] = b_right_ahead0[1];
        barrier();
        [[unroll]] for (int i_part1 = 0; i_part1 < 4; ++i_part1) {
            coopMatLoadNV(b_left_tiles0[0], b_left_slab0, 144 * i_down0 + 2 * i_part1, 9, false);
            coopMatLoadNV(b_right_tiles0[0], b_right_slab0, 2 * i_across0 + 80 * i_part1, 5, false);
            b_totals0[0] = coopMatMulAddNV(b_left_tiles0[0], b_right_tiles0[0], b_totals0[0]);
        }
        coopMatStoreNV(b_totals0[0], b_results0, 320 * i_across0 + 640 * i_down0, 20, false);
        barrier();
        [[unroll]] for (int i_part2 = 0; i_part2 < 2; ++i_part2) {
            uint q8, q9;
            {
                precise float v10_0 = b_results0[320 * i_across0 + 640 * i_down0 + 4 * i_lane0 + 20 * i_lane1 + 40 * i_lane2 + 160 * i_part2];
                uint v10_1 = oi_f16_from_f32(v10_0);
                q8 = (uint(v10_1) & 0xffffu);
            }
            {
                precise float v11_0 = b_results0[320 * i_across0 + 640 * i_down0 + 4 * i_lane0 + 20 * i_lane1 + 40 * i_lane2 + 160 * i_part2 + 1];
                uint v11_1 = oi_f16_from_f32(v11_0);
                q8 |= (uint(v11_1) & 0xffffu) << 16;
            }
            {
                precise float v12_0 = b_results0[320 * i_across0 + 640 * i_down0 + 4 * i_lane0 + 20 * i_lane1 + 40 * i_lane2 + 160 * i_part2 + 2];
                uint v12_1 = oi_f16_from_f32(v12_0);
                q9 = (uint(v12_1) & 0xffffu);
            }
            {
                precise float v13_0 = b_results0[320 * i_across0 + 640 * i_down0 + 4 * i_lane0 + 20 * i_lane1 + 40 * i_lane2 + 160 * i_part2 + 3];
                uint v13_1 = oi_f16_from_f32(v13_0);
                q9 |= (uint(v13_1) & 0xffffu) << 16;
            }
            y0_w2[n18 * i_across0 + n19 * i_column_tile0 + n20 * i_down0 + i_lane0 + n21 * i_lane1 + n22 * i_lane2 + n23 * i_part2 + n24 * i_row_tile0] = uvec2(q8, q9);
        }
        barrier();
    }
}
