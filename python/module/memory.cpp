#include "python/module/memory.hpp"

#include <memory>
#include <string>

namespace rapt_python {

struct Memory::Block {
  rapt::Device device;
  rapt::DType dtype;
  std::vector<std::int64_t> shape, strides;
  rapt::Buffer buffer;

  dlpack::Device where() const {
    const auto type = device.backend == rapt::Backend::cuda  ? dlpack::cuda
                      : device.backend == rapt::Backend::hip ? dlpack::rocm
                                                             : dlpack::cpu;
    return {type, device.index};
  }

  dlpack::Tensor view() {
    return {buffer.data(),
            where(),
            static_cast<std::int32_t>(shape.size()),
            data_type(dtype),
            shape.data(),
            strides.data(),
            0};
  }
};

namespace {

rapt::DType dtype_from(const std::string& text) {
  using rapt::DType;
  for (const DType dtype :
       {DType::f32, DType::f16, DType::bf16, DType::i32, DType::u8, DType::i64}) {
    if (rapt::name(dtype) == text) return dtype;
  }
  throw rapt::Error(rapt::ErrorCode::invalid_argument,
                    "'" + text + "' is not an element type; write f32, f16, bf16, i32, u8 or i64");
}

// A capsule around a managed tensor that shares `block`; freed by whoever takes it, or with the
// capsule.
template <class Managed, class Block>
nb::object make_capsule(const std::shared_ptr<Block>& block, const char* name) {
  auto* managed = new Managed{};
  managed->tensor = block->view();
  managed->context = new std::shared_ptr<Block>(block);
  managed->deleter = [](Managed* self) {
    delete static_cast<std::shared_ptr<Block>*>(self->context);
    delete self;
  };
  if constexpr (requires { managed->version; }) managed->version = {1, 0};
  return nb::steal(PyCapsule_New(managed, name, [](PyObject* self) {
    const char* now = PyCapsule_GetName(self);  // a taker renames it to "used_..."
    if (std::string_view(now).starts_with("used")) return;
    auto* unused = static_cast<Managed*>(PyCapsule_GetPointer(self, now));
    unused->deleter(unused);
  }));
}

}  // namespace

Memory::Memory(const std::string& device, std::vector<std::int64_t> shape, const std::string& dtype)
    : block_(std::make_shared<Block>()) {
  block_->device = rapt::Device::parse(device);
  block_->dtype = dtype_from(dtype);
  block_->strides.resize(shape.size());
  std::int64_t elements = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    block_->strides[axis] = elements;
    elements *= shape[axis];
  }
  block_->shape = std::move(shape);
  block_->buffer = rapt::Buffer(block_->device,
                                static_cast<std::size_t>(elements * size_in_bytes(block_->dtype)));
}

nb::object Memory::capsule(bool versioned) const {
  // Reading a byte back waits for all work in the default stream before it.
  std::byte first{};
  if (block_->buffer.size() > 0) block_->buffer.copy_to_host(&first, 1);
  return versioned ? make_capsule<dlpack::VersionedTensor>(block_, "dltensor_versioned")
                   : make_capsule<dlpack::ManagedTensor>(block_, "dltensor");
}

dlpack::Device Memory::device() const { return block_->where(); }

}  // namespace rapt_python
