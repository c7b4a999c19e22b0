/* What the source of a model needs of Vulkan 1.1: a device, buffers, kernels, and commands that are recorded once and
   submitted in every step. Functions return VK_SUCCESS or the error of the call that failed. */

#ifndef OPENINFER_VULKAN_H
#define OPENINFER_VULKAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <vulkan/vulkan.h>

/* Optional features that kernels use. */
#define OPENINFER_INT64 1u
#define OPENINFER_FLOAT64 2u
#define OPENINFER_STORAGE8 4u
#define OPENINFER_STORAGE16 8u

/* Offsets of what kernels are given are multiples of this. */
#define OPENINFER_OFFSET 64u

/* Most storage buffers of a kernel, and most groups in one dimension that every device takes. */
#define OPENINFER_MOST_BOUND 16
#define OPENINFER_MOST_GROUPS 65535u

/* The offset of a missing table entry. */
#define OPENINFER_NOWHERE UINT64_MAX

/* What kernels need of a device.

   features: optional ones.
   group: invocations of a workgroup.
   subgroup: if it is not 1, how many invocations run in step and hand over values.
   shared: bytes of memory that a workgroup shares.
   pushed: bytes of push constants.
   bound: storage buffers of a kernel.
   range: bytes of the largest of them. */
struct openinfer_needs {
    uint32_t features, group, subgroup, shared, pushed, bound;
    VkDeviceSize range;
};

/* A device with one queue. is_unified: processor and device share their memory. */
struct openinfer_gpu {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    VkCommandPool commands;
    VkDescriptorPool sets;
    VkDescriptorPool spare;
    VkFence done;
    VkPhysicalDeviceMemoryProperties memory;
    uint32_t family;
    int is_unified;
};

/* mapped: where the processor finds the contents, NULL where it does not. */
struct openinfer_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    unsigned char *mapped;
    VkDeviceSize bytes;
};

struct openinfer_kernel {
    VkShaderModule code;
    VkDescriptorSetLayout bound;
    VkPipelineLayout layout;
    VkPipeline pipeline;
};

/* Bytes of a buffer that a kernel is given, or that are copied. */
struct openinfer_place {
    const struct openinfer_buffer *buffer;
    VkDeviceSize offset;
    VkDeviceSize bytes;
};

/* A segment of a program while its commands are recorded, or, with commands NULL, while its numbers are set.

   left: commands that are still to be recorded, the rest is left out.
   passed: commands so far, recorded or not.
   numbers: where the next numbers of a command lie.
   sets: what is bound to kernels comes from here. */
struct openinfer_run {
    const struct openinfer_gpu *gpu;
    VkCommandBuffer commands;
    const struct openinfer_buffer *host;
    VkDescriptorPool sets;
    VkDeviceSize numbers;
    uint32_t left;
    uint32_t passed;
    VkResult result;
};

/* How well a physical device suits; 0 where it does not. */
static inline uint32_t openinfer_rank(VkPhysicalDevice physical, const struct openinfer_needs *needs, uint32_t *family) {
    const VkSubgroupFeatureFlags shuffles = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    const uint32_t features = needs->features;
    VkPhysicalDeviceSubgroupProperties subgroups;
#ifdef VK_EXT_subgroup_size_control
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes;
#endif
    VkPhysicalDeviceProperties2 described;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDevice8BitStorageFeatures bytes;
    VkPhysicalDevice16BitStorageFeatures halves;
    VkPhysicalDeviceFeatures2 found;
    VkQueueFamilyProperties families[16];
    uint32_t count = 16, number;
    vkGetPhysicalDeviceProperties(physical, &properties);
    if (properties.apiVersion < VK_API_VERSION_1_1
        || properties.limits.minStorageBufferOffsetAlignment > OPENINFER_OFFSET
        || properties.limits.maxComputeWorkGroupInvocations < needs->group
        || properties.limits.maxComputeWorkGroupSize[0] < needs->group
        || properties.limits.maxComputeSharedMemorySize < needs->shared
        || properties.limits.maxPushConstantsSize < needs->pushed
        || properties.limits.maxPerStageDescriptorStorageBuffers < needs->bound
        || properties.limits.maxStorageBufferRange < needs->range) {
        return 0;
    }
    memset(&subgroups, 0, sizeof subgroups);
    memset(&described, 0, sizeof described);
    subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    described.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    described.pNext = &subgroups;
#ifdef VK_EXT_subgroup_size_control
    /* Zeros where the device does not know what sizes its subgroups have. */
    memset(&sizes, 0, sizeof sizes);
    sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT;
    subgroups.pNext = &sizes;
#endif
    vkGetPhysicalDeviceProperties2(physical, &described);
#ifdef VK_EXT_subgroup_size_control
    if (needs->subgroup > 1 && (sizes.minSubgroupSize != needs->subgroup || sizes.maxSubgroupSize != needs->subgroup)) {
        return 0;
    }
#endif
    if (needs->subgroup > 1
        && (subgroups.subgroupSize != needs->subgroup || !(subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT)
            || (subgroups.supportedOperations & shuffles) != shuffles)) {
        return 0;
    }
    memset(&bytes, 0, sizeof bytes);
    memset(&halves, 0, sizeof halves);
    memset(&found, 0, sizeof found);
    bytes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
    halves.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    halves.pNext = &bytes;
    found.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    found.pNext = &halves;
    vkGetPhysicalDeviceFeatures2(physical, &found);
    if (((features & OPENINFER_INT64) && !found.features.shaderInt64)
        || ((features & OPENINFER_FLOAT64) && !found.features.shaderFloat64)
        || ((features & OPENINFER_STORAGE8) && !bytes.storageBuffer8BitAccess)
        || ((features & OPENINFER_STORAGE16) && !halves.storageBuffer16BitAccess)) {
        return 0;
    }
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    for (number = 0; number < count; ++number) {
        if (families[number].queueCount > 0 && (families[number].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
            *family = number;
            switch (properties.deviceType) {
            case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 5;
            case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 4;
            case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 3;
            case VK_PHYSICAL_DEVICE_TYPE_CPU: return 2;
            default: return 1;
            }
        }
    }
    return 0;
}

/* Chooses the device that suits best, the first one of several. */
static inline VkResult openinfer_choose(struct openinfer_gpu *gpu, const struct openinfer_needs *needs) {
    VkPhysicalDevice offered[16];
    uint32_t count = 16, number, best = 0;
    VkPhysicalDeviceProperties properties;
    const VkResult result = vkEnumeratePhysicalDevices(gpu->instance, &count, offered);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
        return result;
    }
    for (number = 0; number < count; ++number) {
        uint32_t family = 0;
        const uint32_t rank = openinfer_rank(offered[number], needs, &family);
        if (rank > best) {
            best = rank;
            gpu->physical = offered[number];
            gpu->family = family;
        }
    }
    if (best == 0) {
        return VK_ERROR_FEATURE_NOT_PRESENT;
    }
    vkGetPhysicalDeviceProperties(gpu->physical, &properties);
    vkGetPhysicalDeviceMemoryProperties(gpu->physical, &gpu->memory);
    gpu->is_unified = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU
                      || properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    return VK_SUCCESS;
}

static inline VkResult openinfer_open_device(struct openinfer_gpu *gpu, uint32_t features) {
    static const char *const extensions[] = {"VK_KHR_8bit_storage"};
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue;
    VkDeviceCreateInfo info;
    VkPhysicalDeviceFeatures2 wanted;
    VkPhysicalDevice8BitStorageFeatures bytes;
    VkPhysicalDevice16BitStorageFeatures halves;
    memset(&queue, 0, sizeof queue);
    memset(&info, 0, sizeof info);
    memset(&wanted, 0, sizeof wanted);
    memset(&bytes, 0, sizeof bytes);
    memset(&halves, 0, sizeof halves);
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = gpu->family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    wanted.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    wanted.pNext = &halves;
    wanted.features.shaderInt64 = (features & OPENINFER_INT64) != 0;
    wanted.features.shaderFloat64 = (features & OPENINFER_FLOAT64) != 0;
    halves.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    halves.storageBuffer16BitAccess = (features & OPENINFER_STORAGE16) != 0;
    bytes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
    bytes.storageBuffer8BitAccess = VK_TRUE;
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &wanted;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    if (features & OPENINFER_STORAGE8) {
        halves.pNext = &bytes;
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = extensions;
    }
    return vkCreateDevice(gpu->physical, &info, NULL, &gpu->device);
}

static inline VkResult openinfer_make_pool(const struct openinfer_gpu *gpu, VkDescriptorPool *pool, uint32_t sets, uint32_t bound) {
    VkDescriptorPoolCreateInfo info;
    VkDescriptorPoolSize size;
    memset(&info, 0, sizeof info);
    size.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    size.descriptorCount = bound > 0 ? bound : 1;
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = sets > 0 ? sets : 1;
    info.poolSizeCount = 1;
    info.pPoolSizes = &size;
    return vkCreateDescriptorPool(gpu->device, &info, NULL, pool);
}

/* Opens a device with two pools: for so many sets, which bind so many storage buffers together, and for those that one
   segment takes at most. */
static inline VkResult openinfer_open(struct openinfer_gpu *gpu, const struct openinfer_needs *needs,
                                      const uint32_t sets[2], const uint32_t bound[2]) {
    VkApplicationInfo application;
    VkInstanceCreateInfo instance;
    VkCommandPoolCreateInfo commands;
    VkFenceCreateInfo fence;
    VkResult result;
    memset(&application, 0, sizeof application);
    memset(&instance, 0, sizeof instance);
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.apiVersion = VK_API_VERSION_1_1;
    instance.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    instance.pApplicationInfo = &application;
    result = vkCreateInstance(&instance, NULL, &gpu->instance);
    if (result == VK_SUCCESS) {
        result = openinfer_choose(gpu, needs);
    }
    if (result == VK_SUCCESS) {
        result = openinfer_open_device(gpu, needs->features);
    }
    if (result != VK_SUCCESS) {
        return result;
    }
    vkGetDeviceQueue(gpu->device, gpu->family, 0, &gpu->queue);
    memset(&commands, 0, sizeof commands);
    commands.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    commands.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    commands.queueFamilyIndex = gpu->family;
    result = vkCreateCommandPool(gpu->device, &commands, NULL, &gpu->commands);
    if (result == VK_SUCCESS) {
        result = openinfer_make_pool(gpu, &gpu->sets, sets[0], bound[0]);
    }
    if (result == VK_SUCCESS) {
        result = openinfer_make_pool(gpu, &gpu->spare, sets[1], bound[1]);
    }
    if (result == VK_SUCCESS) {
        memset(&fence, 0, sizeof fence);
        fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
        result = vkCreateFence(gpu->device, &fence, NULL, &gpu->done);
    }
    return result;
}

/* Gives everything back; what was not opened is NULL. */
static inline void openinfer_close(struct openinfer_gpu *gpu) {
    if (gpu->device != NULL) {
        vkDestroyFence(gpu->device, gpu->done, NULL);
        vkDestroyDescriptorPool(gpu->device, gpu->sets, NULL);
        vkDestroyDescriptorPool(gpu->device, gpu->spare, NULL);
        vkDestroyCommandPool(gpu->device, gpu->commands, NULL);
        vkDestroyDevice(gpu->device, NULL);
    }
    if (gpu->instance != NULL) {
        vkDestroyInstance(gpu->instance, NULL);
    }
    memset(gpu, 0, sizeof *gpu);
}

/* Returns the number of a type of memory that has all wanted properties and most of the liked ones, or 32. */
static inline uint32_t openinfer_memory_type(const struct openinfer_gpu *gpu, uint32_t fits, uint32_t wanted, uint32_t liked) {
    uint32_t number, found = 32, best = 0;
    for (number = 0; number < gpu->memory.memoryTypeCount; ++number) {
        const uint32_t flags = gpu->memory.memoryTypes[number].propertyFlags;
        uint32_t rank = 1, likes = flags & liked;
        for (; likes != 0; likes &= likes - 1) {
            ++rank;
        }
        if ((fits >> number & 1u) && (flags & wanted) == wanted && rank > best) {
            best = rank;
            found = number;
        }
    }
    return found;
}

/* Makes a buffer, filled with nothing in particular; is_mapped: in memory that processor and device see alike. */
static inline VkResult openinfer_make_buffer(const struct openinfer_gpu *gpu, struct openinfer_buffer *buffer, VkDeviceSize bytes,
                                      int is_mapped) {
    const uint32_t coherent = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const uint32_t local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    VkBufferCreateInfo info;
    VkMemoryRequirements needed;
    VkMemoryAllocateInfo room;
    VkResult result;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = bytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT
                 | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;
    buffer->bytes = bytes;
    result = vkCreateBuffer(gpu->device, &info, NULL, &buffer->buffer);
    if (result != VK_SUCCESS) {
        return result;
    }
    vkGetBufferMemoryRequirements(gpu->device, buffer->buffer, &needed);
    memset(&room, 0, sizeof room);
    room.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    room.allocationSize = needed.size;
    room.memoryTypeIndex = openinfer_memory_type(gpu, needed.memoryTypeBits, is_mapped ? coherent : 0,
                                                 is_mapped ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT : local);
    if (room.memoryTypeIndex == 32) {
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    result = vkAllocateMemory(gpu->device, &room, NULL, &buffer->memory);
    if (result == VK_SUCCESS) {
        result = vkBindBufferMemory(gpu->device, buffer->buffer, buffer->memory, 0);
    }
    if (result == VK_SUCCESS && is_mapped) {
        void *mapped = NULL;
        result = vkMapMemory(gpu->device, buffer->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
        buffer->mapped = mapped;
    }
    return result;
}

static inline void openinfer_free_buffer(const struct openinfer_gpu *gpu, struct openinfer_buffer *buffer) {
    vkDestroyBuffer(gpu->device, buffer->buffer, NULL);
    vkFreeMemory(gpu->device, buffer->memory, NULL);
    memset(buffer, 0, sizeof *buffer);
}

/* Makes a kernel of SPIR-V that is given storage buffers 0 to bound - 1 and words of push constants. */
static inline VkResult openinfer_make_kernel(const struct openinfer_gpu *gpu, struct openinfer_kernel *kernel, const uint32_t *code,
                                      size_t code_bytes, uint32_t bound, uint32_t words) {
    VkShaderModuleCreateInfo module;
    VkDescriptorSetLayoutBinding bindings[OPENINFER_MOST_BOUND];
    VkDescriptorSetLayoutCreateInfo sets;
    VkPushConstantRange pushed;
    VkPipelineLayoutCreateInfo layout;
    VkComputePipelineCreateInfo pipeline;
    VkResult result;
    uint32_t number;
    memset(&module, 0, sizeof module);
    memset(bindings, 0, sizeof bindings);
    memset(&sets, 0, sizeof sets);
    memset(&layout, 0, sizeof layout);
    memset(&pipeline, 0, sizeof pipeline);
    module.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module.codeSize = code_bytes;
    module.pCode = code;
    result = vkCreateShaderModule(gpu->device, &module, NULL, &kernel->code);
    for (number = 0; number < bound; ++number) {
        bindings[number].binding = number;
        bindings[number].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        bindings[number].descriptorCount = 1;
        bindings[number].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    }
    sets.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    sets.bindingCount = bound;
    sets.pBindings = bindings;
    if (result == VK_SUCCESS) {
        result = vkCreateDescriptorSetLayout(gpu->device, &sets, NULL, &kernel->bound);
    }
    pushed.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    pushed.offset = 0;
    pushed.size = words * 4;
    layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout.setLayoutCount = 1;
    layout.pSetLayouts = &kernel->bound;
    layout.pushConstantRangeCount = words > 0 ? 1 : 0;
    layout.pPushConstantRanges = &pushed;
    if (result == VK_SUCCESS) {
        result = vkCreatePipelineLayout(gpu->device, &layout, NULL, &kernel->layout);
    }
    pipeline.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    pipeline.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    pipeline.stage.module = kernel->code;
    pipeline.stage.pName = "main";
    pipeline.layout = kernel->layout;
    if (result == VK_SUCCESS) {
        result = vkCreateComputePipelines(gpu->device, VK_NULL_HANDLE, 1, &pipeline, NULL, &kernel->pipeline);
    }
    return result;
}

static inline void openinfer_free_kernel(const struct openinfer_gpu *gpu, struct openinfer_kernel *kernel) {
    vkDestroyPipeline(gpu->device, kernel->pipeline, NULL);
    vkDestroyPipelineLayout(gpu->device, kernel->layout, NULL);
    vkDestroyDescriptorSetLayout(gpu->device, kernel->bound, NULL);
    vkDestroyShaderModule(gpu->device, kernel->code, NULL);
    memset(kernel, 0, sizeof *kernel);
}

/* Begins to record; ``left`` as in the structure. */
static inline VkResult openinfer_begin(struct openinfer_run *run, VkCommandBuffer commands, uint32_t left) {
    VkCommandBufferBeginInfo info;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    run->commands = commands;
    run->left = left;
    return vkBeginCommandBuffer(commands, &info);
}

static inline VkResult openinfer_new_commands(const struct openinfer_gpu *gpu, VkCommandBuffer *commands, uint32_t count) {
    VkCommandBufferAllocateInfo info;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = gpu->commands;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = count;
    return vkAllocateCommandBuffers(gpu->device, &info, commands);
}

/* Runs recorded commands and waits for their end. */
static inline VkResult openinfer_submit(const struct openinfer_gpu *gpu, VkCommandBuffer commands) {
    VkSubmitInfo info;
    VkResult result;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    result = vkQueueSubmit(gpu->queue, 1, &info, gpu->done);
    if (result == VK_SUCCESS) {
        result = vkWaitForFences(gpu->device, 1, &gpu->done, VK_TRUE, UINT64_MAX);
    }
    if (result == VK_SUCCESS) {
        result = vkResetFences(gpu->device, 1, &gpu->done);
    }
    return result;
}

/* Whether the next command is to be recorded. */
static inline int openinfer_records(struct openinfer_run *run) {
    ++run->passed;
    if (run->commands == NULL || run->left == 0 || run->result != VK_SUCCESS) {
        return 0;
    }
    --run->left;
    return 1;
}

/* What was written before is seen by what follows: by kernels, copies, and the processor once they have ended. */
static inline void openinfer_barrier(struct openinfer_run *run) {
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkPipelineStageFlags after = stages | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT | VK_PIPELINE_STAGE_HOST_BIT;
    const VkAccessFlags writes = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    const VkAccessFlags reads = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_HOST_READ_BIT;
    VkMemoryBarrier barrier;
    if (run->commands == NULL) {
        return;
    }
    memset(&barrier, 0, sizeof barrier);
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = writes;
    barrier.dstAccessMask = writes | reads | VK_ACCESS_INDIRECT_COMMAND_READ_BIT;
    vkCmdPipelineBarrier(run->commands, stages, after, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* Records what a kernel is given; whether its run is to be recorded too. */
static inline int openinfer_bind(struct openinfer_run *run, const struct openinfer_kernel *kernel,
                          const struct openinfer_place *places, uint32_t bound) {
    VkDescriptorSetAllocateInfo info;
    VkDescriptorBufferInfo buffers[OPENINFER_MOST_BOUND];
    VkWriteDescriptorSet write;
    VkDescriptorSet set;
    uint32_t number;
    if (!openinfer_records(run)) {
        return 0;
    }
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    info.descriptorPool = run->sets;
    info.descriptorSetCount = 1;
    info.pSetLayouts = &kernel->bound;
    run->result = vkAllocateDescriptorSets(run->gpu->device, &info, &set);
    if (run->result != VK_SUCCESS) {
        return 0;
    }
    for (number = 0; number < bound; ++number) {
        buffers[number].buffer = places[number].buffer->buffer;
        buffers[number].offset = places[number].offset;
        buffers[number].range = places[number].bytes;
    }
    memset(&write, 0, sizeof write);
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set;
    write.descriptorCount = bound;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = buffers;
    vkUpdateDescriptorSets(run->gpu->device, 1, &write, 0, NULL);
    vkCmdBindPipeline(run->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    vkCmdBindDescriptorSets(run->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->layout, 0, 1, &set, 0, NULL);
    return 1;
}

/* Runs a kernel on ``bound`` places, with ``words`` push constants, in ``groups`` groups. */
static inline void openinfer_dispatch(struct openinfer_run *run, const struct openinfer_kernel *kernel,
                               const struct openinfer_place *places, uint32_t bound, const uint32_t *pushed,
                               uint32_t words, uint32_t groups) {
    const uint32_t across = groups < OPENINFER_MOST_GROUPS ? groups : OPENINFER_MOST_GROUPS;
    if (!openinfer_bind(run, kernel, places, bound)) {
        return;
    }
    if (words > 0) {
        vkCmdPushConstants(run->commands, kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, words * 4, pushed);
    }
    vkCmdDispatch(run->commands, across, (groups + across - 1) / across, 1);
}

/* The same, where how many groups there are is set before each submission. */
static inline void openinfer_dispatch_indirect(struct openinfer_run *run, const struct openinfer_kernel *kernel,
                                        const struct openinfer_place *places, uint32_t bound,
                                        const struct openinfer_place *groups) {
    if (openinfer_bind(run, kernel, places, bound)) {
        vkCmdDispatchIndirect(run->commands, groups->buffer->buffer, groups->offset);
    }
}

/* Returns where the next numbers of a segment are set, and in ``place`` where kernels find them. */
static inline uint32_t *openinfer_numbers(struct openinfer_run *run, struct openinfer_place *place, uint32_t words) {
    place->buffer = run->host;
    place->offset = run->numbers;
    place->bytes = words * (VkDeviceSize)4;
    run->numbers += (place->bytes + OPENINFER_OFFSET - 1) / OPENINFER_OFFSET * OPENINFER_OFFSET;
    return (uint32_t *)(void *)(run->host->mapped + place->offset);
}

static inline void openinfer_set_groups(uint32_t *set, int64_t groups) {
    const int64_t across = groups < OPENINFER_MOST_GROUPS ? groups : OPENINFER_MOST_GROUPS;
    set[0] = (uint32_t)across;
    set[1] = (uint32_t)(across > 0 ? (groups + across - 1) / across : 0);
    set[2] = 1;
}

static inline void openinfer_set_integer(uint32_t *set, int64_t value) {
    set[0] = (uint32_t)((uint64_t)value & 0xffffffffu);
    set[1] = (uint32_t)((uint64_t)value >> 32);
}

/* An extent that may be computed as less than nothing. */
static inline int64_t openinfer_extent(int64_t extent) {
    return extent > 0 ? extent : 0;
}

/* Copies bytes from one place to another; nothing where they are the same. */
static inline void openinfer_copy(struct openinfer_run *run, struct openinfer_place from, struct openinfer_place to) {
    VkBufferCopy copy;
    if (!openinfer_records(run) || (from.buffer->buffer == to.buffer->buffer && from.offset == to.offset)) {
        return;
    }
    copy.srcOffset = from.offset;
    copy.dstOffset = to.offset;
    copy.size = to.bytes;
    vkCmdCopyBuffer(run->commands, from.buffer->buffer, to.buffer->buffer, 1, &copy);
}

/* Fills a place, of a multiple of four bytes, with a word. */
static inline void openinfer_fill(struct openinfer_run *run, struct openinfer_place to, uint32_t word) {
    if (openinfer_records(run)) {
        vkCmdFillBuffer(run->commands, to.buffer->buffer, to.offset, to.bytes, word);
    }
}

/* Runs one copy and waits for its end. */
static inline VkResult openinfer_copy_now(const struct openinfer_gpu *gpu, struct openinfer_place from, struct openinfer_place to,
                                   VkCommandBuffer commands) {
    struct openinfer_run run;
    VkResult result;
    memset(&run, 0, sizeof run);
    run.gpu = gpu;
    result = openinfer_begin(&run, commands, 1);
    if (result == VK_SUCCESS) {
        openinfer_barrier(&run);
        openinfer_copy(&run, from, to);
        openinfer_barrier(&run);
        result = vkEndCommandBuffer(commands);
    }
    return result == VK_SUCCESS ? openinfer_submit(gpu, commands) : result;
}

/* Copies bytes into a buffer, by way of ``room`` where the processor does not see it. */
static inline VkResult openinfer_upload(const struct openinfer_gpu *gpu, const struct openinfer_buffer *buffer,
                                 VkDeviceSize offset, const void *data, size_t bytes,
                                 const struct openinfer_buffer *room, VkCommandBuffer commands) {
    VkResult result = VK_SUCCESS;
    size_t at = 0;
    if (buffer->mapped != NULL) {
        memcpy(buffer->mapped + offset, data, bytes);
        return result;
    }
    while (at < bytes && result == VK_SUCCESS) {
        const size_t part = bytes - at < room->bytes ? bytes - at : (size_t)room->bytes;
        struct openinfer_place from, to;
        from.buffer = room;
        from.offset = 0;
        from.bytes = part;
        to.buffer = buffer;
        to.offset = offset + at;
        to.bytes = part;
        memcpy(room->mapped, (const unsigned char *)data + at, part);
        result = openinfer_copy_now(gpu, from, to, commands);
        at += part;
    }
    return result;
}

/* Copies bytes out of a buffer, likewise. */
static inline VkResult openinfer_download(const struct openinfer_gpu *gpu, const struct openinfer_buffer *buffer,
                                          VkDeviceSize offset, void *data, size_t bytes,
                                          const struct openinfer_buffer *room, VkCommandBuffer commands) {
    VkResult result = VK_SUCCESS;
    size_t at = 0;
    if (buffer->mapped != NULL) {
        memcpy(data, buffer->mapped + offset, bytes);
        return result;
    }
    while (at < bytes && result == VK_SUCCESS) {
        const size_t part = bytes - at < room->bytes ? bytes - at : (size_t)room->bytes;
        struct openinfer_place from, to;
        from.buffer = buffer;
        from.offset = offset + at;
        from.bytes = part;
        to.buffer = room;
        to.offset = 0;
        to.bytes = part;
        result = openinfer_copy_now(gpu, from, to, commands);
        if (result == VK_SUCCESS) {
            memcpy((unsigned char *)data + at, room->mapped, part);
        }
        at += part;
    }
    return result;
}

#endif
